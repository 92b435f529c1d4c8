"""A digest made beside its bytes is the digest of the bytes."""

from __future__ import annotations

import hashlib
import io
import os
import threading

import pytest

from gpulayer.artifacts.digesting import PIECE_BYTES, Checked, Digesting


@pytest.mark.parametrize("piece", [1, 1_000, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES])
def test_pieces_of_any_size_in_their_order(piece: int) -> None:
    data = os.urandom(min(9 * PIECE_BYTES + 5, 2_000 * piece))
    made = Digesting()
    for at in range(0, len(data), piece):
        made.update(data[at : at + piece])
    assert made.hexdigest() == hashlib.sha256(data).hexdigest()


def test_no_thread_is_left_and_small_ones_have_none() -> None:
    before = threading.active_count()
    small, large = Digesting(), Digesting()
    small.update(b"x" * (PIECE_BYTES - 1))
    assert threading.active_count() == before
    large.update(b"x" * PIECE_BYTES)
    assert threading.active_count() == before + 1
    large.hexdigest()
    assert threading.active_count() == before


def test_one_that_is_given_up_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    made = Digesting()
    made.update(b"x" * PIECE_BYTES)
    (thread,) = set(threading.enumerate()) - before
    del made
    thread.join(60)
    assert not thread.is_alive()


def test_a_file_that_is_begun_anew_is_known_again() -> None:
    file = io.BytesIO()
    checked = Checked(file)
    checked.write(b"wrong")
    checked.seek(0)
    checked.truncate()
    checked.write(b"right")
    assert (file.getvalue(), checked.tell()) == (b"right", 5)
    assert checked.digest() == hashlib.sha256(b"right").hexdigest()


def test_of_a_file_that_somebody_else_began_it_says_nothing() -> None:
    file = io.BytesIO(b"begun ")
    file.seek(0, os.SEEK_END)
    checked = Checked(file)
    checked.seek(6)
    checked.write(b"and ended")
    assert checked.digest() is None
    checked.seek(0)
    checked.write(b"all")
    assert checked.digest() == hashlib.sha256(b"all").hexdigest()
