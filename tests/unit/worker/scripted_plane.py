"""A plane of few words, for tests of the worker alone: it hands out what it is given and
remembers what it is told."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulayer.contracts.messages import (
    Acquire,
    Acquired,
    Assignment,
    Cancel,
    Errand,
    ErrandDone,
    Exit,
    Register,
    Registered,
    Report,
    ReportReply,
)
from gpulayer.errors import NotFoundError

WAIT = 60.0


@dataclass
class Told:
    """What the plane knows of one task."""

    phases: list[str] = field(default_factory=list)
    exit: Exit | None = None
    log: bytearray = field(default_factory=bytearray)
    log_size: int | None = None
    inline: bool = False


class ScriptedPlane:
    """Fills `WorkerChannel`. `away` makes every call fail, as when the plane is gone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._assign: list[Assignment] = []
        self._cancel: list[Cancel] = []
        self._leave = False
        self._closed = False
        self._fences = 0
        self.away = False
        self.tasks: dict[str, Told] = {}
        self.registers: list[Register] = []
        self.reports: list[Report] = []
        self.shipments = 0
        self.refused = 0
        """Calls that failed because the plane was away."""
        self.artifacts: dict[str, bytes] = {}
        self.cut_off: set[str] = set()
        """Artifacts at which the connection breaks."""
        self.asked: list[str] = []
        self.answers: list[ErrandDone] = []
        self._errands: list[Errand] = []

    # --- the test's side --------------------------------------------------------------------

    def hand_out(self, spec: dict[str, Any], **fields: Any) -> str:
        with self._changed:
            self._fences += 1
            task_id = f"t{self._fences}"
            base: dict[str, Any] = {
                "job_id": f"job-{self._fences}",
                "job_name": "job",
                "index": 0,
                "attempt": 1,
                "rank": 0,
                "origin": {},
            }
            self.tasks[task_id] = Told()
            self._assign.append(Assignment(task_id, self._fences, spec=spec, **(base | fields)))
            self._changed.notify_all()
            return task_id

    def cancel(self, task_id: str, mode: str = "term", grace: float = 5.0) -> None:
        with self._changed:
            self._cancel.append(Cancel(task_id, mode, grace))
            self._changed.notify_all()

    def give(self, digest: str, data: bytes) -> None:
        with self._changed:
            self.artifacts[digest] = data
            self.cut_off.discard(digest)

    def ask(self, errand: Errand) -> None:
        with self._changed:
            self._errands.append(errand)
            self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._leave = True
            self._changed.notify_all()

    def go(self, away: bool) -> None:
        with self._changed:
            self.away = away
            self._changed.notify_all()

    def reopen(self) -> None:
        """For the next worker, after one has closed its channel."""
        with self._changed:
            self._closed = False

    def until(self, holds: Callable[[], Any]) -> Any:
        """Wait until `holds` is true of what was told; its value."""
        with self._changed:
            assert self._changed.wait_for(holds, WAIT), "not in time"
            return holds()

    def ended(self, task_id: str) -> Told:
        self.until(lambda: self.tasks[task_id].exit)
        return self.tasks[task_id]

    # --- the worker's side ------------------------------------------------------------------

    def register(self, message: Register) -> Registered:
        with self._here():
            self.registers.append(message)
            self._changed.notify_all()
            return Registered(len(self.registers), 30.0, 5.0)

    def report(self, message: Report) -> ReportReply:
        with self._here():
            self.reports.append(message)
            for news in message.tasks:
                told = self.tasks[news.task_id]
                told.phases.append(news.phase or "")
                if news.exit is not None:
                    told.exit, told.log_size = news.exit, news.log_size
                    if news.log is not None:
                        told.inline = True
                        told.log[:] = base64.b64decode(news.log)
            self._changed.notify_all()
            return ReportReply(recorded=tuple(n.task_id for n in message.tasks if n.exit))

    def acquire(self, message: Acquire) -> Acquired:
        with self._here():
            self._changed.wait_for(
                lambda: self._assign or self._cancel or self._errands or self._leave or self._gone,
                WAIT,
            )
            if self._gone:
                raise ConnectionResetError
            given = Acquired(
                assignments=tuple(self._assign),
                cancel=tuple(self._cancel),
                leave=self._leave,
                errands=tuple(self._errands),
            )
            self._assign, self._cancel, self._errands = [], [], []
            return given

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> int:
        with self._here():
            self.shipments += 1
            log = self.tasks[task_id].log
            if offset <= len(log):
                log += data[len(log) - offset :]
            self._changed.notify_all()
            return len(log)

    def errand_done(self, message: ErrandDone) -> None:
        with self._here():
            self.answers.append(message)
            self._changed.notify_all()

    def put_artifact(self, path: str) -> str:
        data = Path(path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        with self._here():
            self.artifacts[digest] = data
        return digest

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        with self._here():
            self.artifacts.update(files)

    def get_artifact(self, digest: str, path: str) -> None:
        with self._here():
            self.asked.append(digest)
            self._changed.notify_all()
            if digest in self.cut_off:
                raise ConnectionResetError
            if digest not in self.artifacts:
                raise NotFoundError("artifact-not-found", "no such artifact")
            data = self.artifacts[digest]
        Path(path).write_bytes(data)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def _gone(self) -> bool:
        return self.away or self._closed

    def _here(self) -> threading.Condition:
        if self._gone:
            self.refused += 1
            raise ConnectionRefusedError
        return self._changed
