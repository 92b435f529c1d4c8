"""A worker that leaves waits until nothing runs on it."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpulayer.runtime import frames
from gpulayer.sdk.joining import _until_idle


class Busy:
    """A supervisor that says nothing to who asks first, and then what it was told."""

    def __init__(self, folder: str, *counts: int) -> None:
        self.path = f"{folder}/s.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._counts = list(counts)
        self._silent: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._thread.join()
        for sock in (*self._silent, self._listener):
            sock.close()

    def _serve(self) -> None:
        self._silent.append(self._listener.accept()[0])
        while self._counts:
            with frames.Connection(self._listener.accept()[0]) as asked:
                try:
                    self._answer(asked)
                except (EOFError, OSError):
                    continue  # it did not wait so long

    def _answer(self, asked: frames.Connection) -> None:
        while self._counts:
            _, request, _ = asked.recv()
            found: dict[str, Any] = {"seq": request["seq"], "ok": True}
            if request["op"] == "list":
                found["tasks"] = [{}] * self._counts.pop(0)
            asked.send_json(found)
            if request["op"] == "list":
                return


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="g") as folder:
        yield folder


def test_a_supervisor_that_is_silent_for_a_while_is_not_one_without_jobs(folder: str) -> None:
    busy = Busy(folder, 2, 1, 0)
    joined: Any = SimpleNamespace(
        runs=lambda: True, places=SimpleNamespace(supervisor_socket=busy.path)
    )
    told: list[int] = []
    _until_idle(joined, told.append, answer_seconds=0.3)
    busy.close()
    assert told == [2, 1]


def test_without_a_supervisor_nothing_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "nobody.sock")
    joined: Any = SimpleNamespace(runs=lambda: True, places=SimpleNamespace(supervisor_socket=path))
    told: list[int] = []
    _until_idle(joined, told.append)
    assert told == []
