"""Uploads on their way: who may write, and what is known of them at the end."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from gpulayer.api.begun import Begun
from gpulayer.contracts.principals import LOCAL

DATA = b"of an artifact"
DIGEST = hashlib.sha256(DATA).hexdigest()


def test_what_came_at_once_need_not_be_read_again(tmp_path: Path) -> None:
    with Begun(str(tmp_path)).upload(LOCAL, DIGEST, 0) as upload:
        upload.write(DATA[:5])
        upload.write(DATA[5:])
        whole = upload.whole()
    assert (Path(whole.path).read_bytes(), whole.digest) == (DATA, DIGEST)


def test_of_what_was_gone_on_with_nobody_knows_the_digest(tmp_path: Path) -> None:
    begun = Begun(str(tmp_path))
    first = begun.upload(LOCAL, DIGEST, 0)
    first.write(b"OF AN")
    with first, begun.upload(LOCAL, DIGEST, 5) as upload:
        upload.write(DATA[5:])
        assert upload.whole().digest is None


def test_whoever_was_at_it_before_writes_no_more(tmp_path: Path) -> None:
    """From the moment on at which another goes on: each byte is of one of them."""
    begun = Begun(str(tmp_path))
    first = begun.upload(LOCAL, DIGEST, 0)
    ended: list[BaseException] = []
    has_written = threading.Event()

    def write_on() -> None:
        try:
            while True:
                first.write(b"x" * 100_000)
                has_written.set()
        except ConnectionAbortedError as error:
            ended.append(error)

    thread = threading.Thread(target=write_on)
    thread.start()
    assert has_written.wait(60)
    with begun.upload(LOCAL, DIGEST, 0) as second:
        second.write(DATA)
        thread.join(60)
        assert ended
        assert Path(second.whole().path).read_bytes() == DATA
    with pytest.raises(ConnectionAbortedError), first:
        first.write(b"x")


def test_nothing_is_written_once_its_connection_has_ended(tmp_path: Path) -> None:
    """Its descriptor may be another file's by then."""
    upload = Begun(str(tmp_path)).upload(LOCAL, DIGEST, 0)
    with upload:
        upload.write(DATA)
    with pytest.raises(ConnectionAbortedError):
        upload.write(b"more")


def test_one_that_cannot_go_on_ends_nobody(tmp_path: Path) -> None:
    begun = Begun(str(tmp_path))
    with begun.upload(LOCAL, DIGEST, 0) as first:
        first.write(DATA[:5])
        with pytest.raises(Exception, match="5 of its bytes are here"):
            begun.upload(LOCAL, DIGEST, 6)
        first.write(DATA[5:])
        assert first.whole().digest == DIGEST
