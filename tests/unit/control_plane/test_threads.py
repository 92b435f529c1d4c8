"""The plane as it runs: a real file, one writer, many threads that wait for words only."""

from __future__ import annotations

import threading
from pathlib import Path

from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.messages import (
    Acquire,
    Assignment,
    Exit,
    Held,
    Register,
    Report,
    TaskReport,
)
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.submission import Submission
from gpulayer.control_plane.wakeups import ANY_JOB, Wakeups, worker_topic
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store
from tests.support.laws import Laws

_SPEC = {"name": "job", "workload": {"kind": "command", "command": ["true"]}}
_WAIT = 60.0


def test_many_submitters_and_a_worker_need_no_clock_to_meet(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    store = Store(tmp_path / "db.sqlite")
    plane = ControlPlane(
        store,
        SystemClock(),
        SystemIds(),
        Wakeups(),
        LogFolder(tmp_path / "logs"),
        LocalArtifacts(tmp_path / "artifacts"),
    )
    try:
        worker = threading.Thread(target=_work, args=(plane,))
        worker.start()
        submitters = [threading.Thread(target=_submit, args=(plane,)) for _ in range(4)]
        for thread in submitters:
            thread.start()
        for thread in submitters:
            thread.join()
        while True:
            with plane.wakeups.subscribe(ANY_JOB) as ticket:
                if not plane.jobs():
                    break
                assert ticket.wait(_WAIT), plane.counts()
        assert plane.counts()["succeeded"] == 40
        Laws().check(store)
    finally:
        plane.leave()
        worker.join()
        store.close()


def _submit(plane: ControlPlane) -> None:
    for _ in range(10):
        plane.submit([Submission(_SPEC)]).result(_WAIT)


def _work(plane: ControlPlane) -> None:
    """Takes what it is given until the plane leaves; ends go out two by two, as they come."""
    capabilities = WorkerCapabilities("w", "linux", "x86_64", 3.0, 8.0, gpus=())
    hello = Register("w", "w", "n", "local", capabilities.to_json(), (), 1)
    incarnation = plane.register(hello).result(_WAIT).incarnation
    held: dict[str, Held] = {}
    given: tuple[Assignment, ...] = ()
    for turn in range(1, 10_000):
        asked = Acquire("w", incarnation, seq=turn)
        while not given:
            with plane.wakeups.subscribe(worker_topic("w")) as ticket:
                acquired = plane.acquire_now(asked).result(_WAIT)
                if acquired.leave:
                    return
                given = acquired.assignments
                if not given:
                    ticket.wait(_WAIT)
        news = []
        for assignment in given:
            held[assignment.task_id] = Held(assignment.task_id, assignment.fence, "exited")
            end = Exit("succeeded", "exited", exit_code=0, started_at=1.0)
            news.append(TaskReport(assignment.task_id, assignment.fence, exit=end))
        report = Report("w", incarnation, turn + 1, tuple(held.values()), tuple(news))
        reply = plane.report(report).result(_WAIT)
        given = reply.assignments  # with the room come the next ones
        for task_id in reply.recorded:
            held.pop(task_id, None)
