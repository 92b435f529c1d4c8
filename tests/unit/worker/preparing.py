"""A worker's preparation of a task, without a plane and without a supervisor."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpulayer.clock import SystemClock
from gpulayer.contracts.messages import Assignment
from gpulayer.errors import NotFoundError
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.environments.store import Environments
from gpulayer.worker.images.store import Images
from gpulayer.worker.secrets.book import Book
from gpulayer.worker.task_runner import TaskRunner

WORKER_ENVIRON = {
    "PATH": "/bin",
    "HOME": "/h",
    "LC_ALL": "C",
    "AWS_SECRET": "no",
    "TOKEN": "abcdef",
}


class Terminal:
    """The supervisor's answer about an envelope."""

    def __init__(self, **environ: str) -> None:
        self.environ = environ
        self.asked: list[Sequence[str]] = []

    def call(self, op: str, *, envelope_id: str, names: Sequence[str]) -> dict[str, Any]:
        assert op == "environ"
        self.asked.append(names)
        return {"values": {name: self.environ.get(name) for name in names}}


def assignment(spec: Mapping[str, Any], **fields: Any) -> Assignment:
    base: dict[str, Any] = {
        "index": 0,
        "attempt": 1,
        "rank": 0,
        "origin": {"interpreter": {"path": sys.executable, "why": ".venv"}, "cwd": "/somewhere"},
    }
    whole = {"workload": {"kind": "command", "command": ["true"]}, **spec}
    return Assignment("t1", 1, "job-1", "job", spec=whole, **(base | fields))


def runner_of(
    folder: Path,
    known: dict[str, bytes],
    data: Mapping[str, str] | None = None,
    book: Book | None = None,
    images: Images | None = None,
) -> TaskRunner:
    """A worker whose plane has these artifacts, that has declared these data sets, and whose owner
    allows the secrets of this book."""

    def fetch(digest: str, path: str) -> None:
        if digest not in known:
            raise NotFoundError("artifact-not-found", "no such artifact")
        Path(path).write_bytes(known[digest])

    return TaskRunner(
        str(folder),
        SystemClock(),
        interpreter="/usr/bin/python3",
        environ=WORKER_ENVIRON,
        artifacts=ArtifactCache(str(folder / "cache"), fetch, SystemClock()),
        environments=Environments(str(folder / "environments"), str(folder), SystemClock()),
        worker="lab-1",
        data=data,
        secrets_allowed=book,
        images=images,
    )


def prepare(
    runner: TaskRunner, spec: Mapping[str, Any], terminal: Terminal | None = None, **fields: Any
) -> dict[str, Any]:
    if terminal is not None:
        fields["envelope_id"] = "e" * 64
    return runner.prepare(assignment(spec, **fields), terminal or Terminal())
