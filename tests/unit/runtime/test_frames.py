"""Frames: the bytes between the supervisor and those who speak to it."""

from __future__ import annotations

import os
import socket
import threading

import pytest
from hypothesis import given, strategies as st

from gpulayer.runtime import frames
from gpulayer.runtime.frames import Connection, Decoder, ProtocolError, Refused

MESSAGES = st.dictionaries(st.text(max_size=5).filter(lambda k: k != "fds"), st.text(max_size=9))


@given(
    st.lists(st.one_of(MESSAGES, st.tuples(st.sampled_from("12TIL"), st.binary(max_size=60)))),
    st.integers(1, 40),
)
def test_frames_come_out_as_they_went_in_whatever_the_split(sent, size):
    raw = b"".join(
        frames.encode_json(f) if isinstance(f, dict) else frames.encode(*f) for f in sent
    )
    decoder = Decoder()
    out = []
    for i in range(0, len(raw), size):
        decoder.feed(raw[i : i + size])
        out += list(decoder.frames())
    expected = [("J", f, []) if isinstance(f, dict) else (*f, []) for f in sent]
    assert out == expected


def test_text_that_stands_for_raw_bytes_survives():
    name = os.fsdecode(b"\xff\xfe")
    decoder = Decoder()
    decoder.feed(frames.encode_json({"name": name}))
    ((_, message, _),) = decoder.frames()
    assert os.fsencode(message["name"]) == b"\xff\xfe"


@pytest.mark.parametrize(
    "raw",
    [
        frames.HEADER.pack(frames.MAX_PAYLOAD + 1, b"1"),
        frames.HEADER.pack(frames.MAX_JSON + 1, b"J"),
        frames.encode("J", b"{"),
        frames.encode("J", b"[]"),
        frames.encode("J", b"\xff"),
        frames.encode("J", b'{"fds": ["cwd"]}'),
        frames.encode("J", b'{"fds": 3}'),
        frames.encode("J", b"[" * 100_000),
    ],
)
def test_what_is_no_frame_is_refused(raw):
    decoder = Decoder()
    decoder.feed(raw)
    with pytest.raises(ProtocolError):
        list(decoder.frames())


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs, Connection(ours) as connection, Connection(theirs) as peer:
        yield connection, peer


def test_descriptors_come_with_their_names(pair):
    connection, peer = pair
    reader, writer = os.pipe()
    connection.send_json({"op": "x"})
    connection.send_json({"op": "attach", "fds": ["stdin", "cwd"]}, [reader, writer])
    assert peer.recv() == ("J", {"op": "x"}, [])
    _, message, (one, two) = peer.recv()
    assert message["fds"] == ["stdin", "cwd"]
    assert not os.get_inheritable(one)
    os.write(two, b"through")
    assert os.read(reader, 10) == b"through"
    for fd in (one, two, reader, writer):
        os.close(fd)


def answer_with(peer, *replies):
    def serve():
        _, request, _ = peer.recv()
        for reply in replies:
            peer.send_json({"seq": request["seq"], **reply} if "event" not in reply else reply)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_call_waits_for_its_own_answer_and_keeps_the_rest(pair):
    connection, peer = pair
    thread = answer_with(peer, {"event": "started"}, {"ok": True, "pid": 7}, {"event": "exited"})
    assert connection.call("start", task={})["pid"] == 7
    thread.join()
    assert [connection.recv()[1]["event"] for _ in range(2)] == ["started", "exited"]


def test_an_error_is_raised_with_its_code(pair):
    connection, peer = pair
    error = {"code": "not-found", "message": "no x", "exit": {"exit_code": 127}}
    thread = answer_with(peer, {"error": error})
    with pytest.raises(Refused, match="no x") as refused:
        connection.call("start", task={})
    thread.join()
    assert refused.value.code == "not-found"
    assert refused.value.details["exit"]["exit_code"] == 127


def test_a_supervisor_that_is_gone_is_the_end_of_the_file(pair):
    connection, peer = pair
    peer.close()
    with pytest.raises(EOFError):
        connection.recv()
    with pytest.raises(EOFError):
        connection.call("list")


def test_nobody_at_the_address_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        frames.connect(str(tmp_path / "s.sock"))
