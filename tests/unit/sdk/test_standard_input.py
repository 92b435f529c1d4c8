"""What is taken of a descriptor before a job travels, and what is left alone."""

from __future__ import annotations

import hashlib
import os
import pty
import socket
import threading
from pathlib import Path

import pytest

from gpulayer.contracts import limits
from gpulayer.errors import RefusedError, UsageError
from gpulayer.sdk.standard_input import StandardInput, taken


def heard(size: int) -> None: ...


def piped(data: bytes) -> int:
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb", buffering=0) as pipe:
            try:
                pipe.write(data)
            except BrokenPipeError:
                pass  # it was more than is taken

    threading.Thread(target=write).start()
    return reader


def content(found: StandardInput | None) -> bytes:
    assert found is not None
    whole = found.read()
    assert (hashlib.sha256(whole).hexdigest(), len(whole)) == (found.digest, found.size)
    found.seek(0)
    assert b"".join(iter(lambda: found.read(7), b"")) == whole, "it can be sent again"
    return whole


def test_a_file_is_taken_from_where_it_stands_and_stands_there_still(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"one\ntwo\n")
    with open(tmp_path / "list", "rb", buffering=0) as file:
        file.seek(4)
        assert content(taken(file.fileno(), heard)) == b"two\n"
        assert file.tell() == 4
        file.seek(8)
        assert taken(file.fileno(), heard) is None, "nothing is left of it"


def test_a_pipe_and_a_socket_are_taken_to_their_end() -> None:
    data = os.urandom(1 << 20) * 3
    told: list[int] = []
    reader = piped(data)
    assert content(taken(reader, told.append)) == data
    assert told[-1] == len(data)
    os.close(reader)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # as somebody who shares it may have done
        threading.Timer(0.05, lambda: (theirs.sendall(b"late"), theirs.close())).start()
        assert content(taken(ours.fileno(), heard)) == b"late"


def test_terminals_devices_folders_and_what_is_closed_give_nothing(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    os.write(master, b"keys\n")
    zero, folder = os.open("/dev/zero", os.O_RDONLY), os.open(tmp_path, os.O_RDONLY)
    for fd in (slave, zero, folder):
        assert taken(fd, heard) is None
    for fd in (master, slave, zero, folder):
        os.close(fd)
    assert taken(slave, heard) is None


def test_a_pipe_is_taken_up_to_its_limit_and_no_further() -> None:
    assert limits.PIPED_BYTES == 4 << 30
    for size in (999, 1000):
        reader = piped(b"x" * size)
        assert content(taken(reader, heard, most=1000)) == b"x" * size
        os.close(reader)
    reader = piped(b"x" * 1001)
    with pytest.raises(RefusedError) as refused:
        taken(reader, heard, most=1000)
    os.close(reader)
    assert refused.value.code == "too-large"


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(UsageError, match="standard input cannot be read"):
        taken(fd, heard)
    os.close(fd)


def test_a_file_that_becomes_shorter_is_never_padded(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 100)
    with open(tmp_path / "data", "r+b", buffering=0) as file:
        found = taken(file.fileno(), heard)
        file.truncate(50)
        assert found is not None
        with pytest.raises(UsageError, match="shorter"):
            list(iter(lambda: found.read(30), b""))


def test_what_a_pipe_gave_has_no_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    reader = piped(b"words")
    assert content(taken(reader, lambda size: _nothing_in(tmp_path))) == b"words"
    os.close(reader)


def _nothing_in(folder: Path) -> None:
    assert os.listdir(folder) == []
