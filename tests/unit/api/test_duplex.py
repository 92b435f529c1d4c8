"""Two bodies at the same time: what is cut anywhere comes out whole, and what is no stream ends."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given, strategies as st

from gpulayer.api.duplex import HIGH_BYTES, Duplex, Unchunked
from gpulayer.runtime import frames


def chunked(parts: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts if p) + b"0\r\n\r\n"


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 9), max_size=80))
def test_a_chunked_body_is_read_however_it_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    raw, body, said = chunked(parts), Unchunked(), b""
    for size in (*cuts, len(raw)):
        said += body.feed(raw[:size])
        raw = raw[size:]
    assert said == b"".join(parts)
    assert body.has_ended


@pytest.mark.parametrize("raw", [b"zz\r\n", b"x" * 300, b"\r\n\r\n"], ids=repr)
def test_what_is_no_chunk_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"chunk|base 16"):
        Unchunked().feed(raw)


def test_frames_go_both_ways_and_a_full_one_takes_no_more_than_it_must() -> None:
    here, there = socket.socketpair()
    with here, there:
        way = Duplex(here, chunked([frames.encode("1", b"hello")])[:-5])
        assert way.is_pending
        assert way.receive() == [("1", b"hello")]
        assert not way.has_ended
        while not way.is_full:
            way.send("I", b"x" * 65536)
            way.flush()
        assert way._backlog < HIGH_BYTES + 2 * 65536
        while not way.is_flushed:
            there.recv(1 << 20)
            way.flush()
        there.sendall(b"0\r\n\r\n")
        assert way.receive() == []
        assert way.has_ended


def test_the_end_of_the_connection_is_the_end_of_the_stream() -> None:
    here, there = socket.socketpair()
    with here:
        way = Duplex(here, b"")
        there.close()
        with pytest.raises(EOFError):
            way.receive()


def test_a_control_frame_has_a_limit() -> None:
    here, there = socket.socketpair()
    with here, there:
        way = Duplex(here, chunked([frames.HEADER.pack(1 << 20, b"J")]))
        with pytest.raises(EOFError, match="limit"):
            way.receive()
