"""Errands: what workers are asked besides their tasks, and what each has answered.

    sent --> handed to the worker with its next acquire --> answered

In memory, and for the one who waits for the answers: an errand whose plane ends is asked again. All
are harmless twice, so one that was handed out and is not answered is handed out once more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from gpulayer.contracts.ids import TaskId, WorkerId
from gpulayer.contracts.messages import Errand, ErrandDone
from gpulayer.control_plane.ports import Ports, Reader
from gpulayer.control_plane.sessions import Session, Sessions
from gpulayer.control_plane.wakeups import worker_topic
from gpulayer.errors import NotFoundError

COME_SECONDS = 3.0
"""After a plane's start, how long a worker that is known may take to come."""
FORGOTTEN_SECONDS = 600.0
"""Whoever asked and went away without hearing the answers is not waited for longer."""


@dataclass(slots=True)
class Asked:
    """One errand for several workers."""

    topic: str
    began: float
    """Monotonic."""
    names: dict[str, str] = field(default_factory=dict)
    """Of every worker that was meant, by id."""
    errands: dict[str, Errand] = field(default_factory=dict)
    """Those on their way, by worker."""
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By worker; also why there is none."""


class Errands:
    """Thread-safe."""

    def __init__(self, ports: Ports, sessions: Sessions) -> None:
        self._ports = ports
        self._sessions = sessions
        self._lock = Lock()
        self._asked: dict[str, Asked] = {}

    # --- clients ---------------------------------------------------------------------------

    def send(self, verb: str, body: Mapping[str, Any], only: Collection[str] = ()) -> Asked:
        """To all workers, or those of these ids and names. Raises `worker-not-found`."""
        ids, now = self._ports.ids, self._ports.clock.monotonic()
        with self._ports.store.read() as reader:
            workers = {str(worker.id): worker.name for worker in reader.workers()}
        for name in only:
            if name not in workers and name not in workers.values():
                raise NotFoundError(
                    "worker-not-found", f"no worker is called {name!r}", hint="gpulayer workers"
                )
        names = {i: name for i, name in workers.items() if not only or {i, name} & set(only)}
        asked = Asked(f"errand:{ids.token(12)}", now, names)
        asked.errands = {worker: Errand(ids.token(12), verb, body) for worker in names}
        with self._lock:
            late = now - FORGOTTEN_SECONDS
            self._asked = {t: one for t, one in self._asked.items() if one.began >= late}
            self._asked[asked.topic] = asked
        self._ports.wakeups.publish(*map(worker_topic, names))
        return asked

    def answers(self, asked: Asked, *, last: bool) -> list[dict[str, Any]] | None:
        """Of each worker, by name: {id, name, state, why, answer}. None: some are still awaited.
        `last`: who has not answered has not. Whoever has these is done with it."""
        now = self._ports.clock.monotonic()
        with self._lock:
            for worker in list(asked.errands):
                why = self._silence(WorkerId(worker), now) or (last and ("silent", _SILENT))
                if why:
                    asked.answers[worker] = {"state": why[0], "why": why[1]}
                    del asked.errands[worker]
            if asked.errands:
                return None
            self._asked.pop(asked.topic, None)
        with self._ports.store.read() as reader:
            self._say_where(asked, reader)
            return [
                {"id": worker, "name": asked.names[worker], "why": "", "answer": None}
                | _with_jobs(asked.answers[worker], reader)
                for worker in sorted(asked.names, key=lambda worker: asked.names[worker])
            ]

    # --- workers ---------------------------------------------------------------------------

    def of(self, worker_id: str) -> list[Errand]:
        """Those that it has not answered."""
        if not self._asked:
            return []
        with self._lock:
            found = [asked.errands.get(worker_id) for asked in self._asked.values()]
        return [errand for errand in found if errand is not None]

    def done(self, message: ErrandDone) -> None:
        """Twice-safe."""
        with self._lock:
            for asked in self._asked.values():
                errand = asked.errands.get(message.worker_id)
                if errand is not None and errand.id == message.errand_id:
                    state = "failed" if message.why else "answered"
                    told = {"state": state, "why": message.why, "answer": message.answer}
                    asked.answers[message.worker_id] = told
                    del asked.errands[message.worker_id]
                    self._ports.wakeups.publish(asked.topic)

    # --- inside ------------------------------------------------------------------------------

    def _say_where(self, asked: Asked, reader: Reader) -> None:
        """Of those that speak with another plane: on which machine that is, to be asked there."""
        far = [i for i, told in asked.answers.items() if told["state"] == "elsewhere"]
        homes = reader.plane_homes() if far else {}
        for worker in far:
            session = self._sessions.get(WorkerId(worker))
            home = homes.get(session.worker.plane if session is not None else "", "")
            if host := home.partition(":")[0]:
                asked.answers[worker]["why"] += f", the one on {host}: ask there"

    def _silence(self, worker_id: WorkerId, now: float) -> tuple[str, str] | None:
        """Why it will not answer; None: it may."""
        session = self._sessions.get(worker_id)
        if session is None and now - self._sessions.started < COME_SECONDS:
            return None
        if session is not None and session.is_far:
            return "elsewhere", "it speaks with another of the planes that share this database"
        if session is None or not self._sessions.is_online(session, now):
            silent = self._sessions.silent_seconds(worker_id, now)
            return "away", f"nothing was heard of it for {silent:.0f} s"
        return None if _does(session) else ("older", f"it is too old: {_version(session)}")


_SILENT = "it did not answer in time"


def _does(session: Session) -> bool:
    return session.capabilities.errands


def _version(session: Session) -> str:
    return f"version {session.capabilities.version or '?'}, upgrade it there"


def _with_jobs(told: Mapping[str, Any], reader: Reader) -> dict[str, Any]:
    """With the job of each task that uses something, for people."""
    answer = dict(told.get("answer") or {})
    for kind in ("environments", "kept"):
        if kind in answer:
            answer[kind] = [
                {**one, "used_by": _jobs(one.get("used_by") or (), reader)} for one in answer[kind]
            ]
    return {**told, "answer": answer or None}


def _jobs(tasks: Collection[str], reader: Reader) -> list[str]:
    found = (reader.task(TaskId(task)) for task in tasks)
    return [str(task.job_id) for task in found if task is not None]
