"""One suite for every way in which a worker reaches its plane."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpulayer.api.direct_channel import DirectChannel
from gpulayer.api.endpoints import Far
from gpulayer.api.routes import BATCH_BYTES
from gpulayer.api.worker_channel import HttpChannel
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.messages import (
    Acquire,
    Assignment,
    ErrandDone,
    Exit,
    Held,
    KeepCheckpoint,
    KeepMetrics,
    MetricsKept,
    Register,
    Registered,
    Report,
    TaskReport,
)
from gpulayer.errors import NotFoundError, RefusedError
from gpulayer.worker.channel import WorkerChannel
from tests.support.served_plane import FINISH_SECONDS, ServedPlane
from tests.support.tls_server import Identity


class Worker:
    """Speaks by hand what an agent would say."""

    def __init__(self, channel: WorkerChannel) -> None:
        self.channel = channel
        self.pool = ThreadPoolExecutor(2)
        self.incarnation = 0
        self.calls = 0

    def register(self, *, errands: bool = False) -> Registered:
        has = WorkerCapabilities("here", "linux", "x86_64", 4.0, 8.0, errands=errands)
        capabilities = has.to_json()
        self.calls += 1
        registered = self.channel.register(
            Register("w", "w", "nonce", "local", capabilities, seq=self.calls)
        )
        self.incarnation = registered.incarnation
        return registered

    def acquire(self, park: float = 20.0) -> Future[Any]:
        self.calls += 1
        message = Acquire("w", self.incarnation, park, self.calls)
        return self.pool.submit(self.channel.acquire, message)

    def task(self) -> Assignment:
        (assignment,) = self.acquire().result(FINISH_SECONDS).assignments
        return assignment  # type: ignore[no-any-return]

    def report(self, *news: TaskReport, held: tuple[Held, ...] = ()) -> Any:
        self.calls += 1
        return self.channel.report(Report("w", self.incarnation, self.calls, held, news))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ServedPlane]:
    plane = ServedPlane(tmp_path)
    try:
        yield plane
    finally:
        plane.close()


@pytest.fixture(params=["in-process", "unix", "tcp", "tls"])
def worker(plane: ServedPlane, request: pytest.FixtureRequest) -> Iterator[Worker]:
    channel = reached(plane, request.param)
    worker = Worker(channel)
    try:
        yield worker
    finally:
        channel.close()
        worker.pool.shutdown()


def reached(plane: ServedPlane, way: str) -> WorkerChannel:
    match way:
        case "in-process":
            return DirectChannel(plane.plane, plane.artifacts)
        case "unix":
            plane.serve()
            return HttpChannel.over(plane.socket)
        case "tcp":
            return HttpChannel.over(Far(*plane.serve_tcp()))
        case _:
            identity = Identity()
            return HttpChannel.over(Far(*plane.serve_tcp(identity.context()), identity.pin))


def submit(plane: ServedPlane) -> str:
    return plane.submit()


def test_a_task_goes_all_the_way(plane: ServedPlane, worker: Worker) -> None:
    registered = worker.register()
    assert (registered.incarnation, registered.lease_seconds) == (1, 30.0)
    job_id = submit(plane)
    task = worker.task()
    assert (task.job_id, task.attempt, task.spec["name"]) == (job_id, 1, "job")
    end = Exit("succeeded", "exited", exit_code=0, started_at=1.0, ended_at=2.0)
    reply = worker.report(TaskReport(task.task_id, task.fence, "exited", 1.0, end, 0))
    assert reply.recorded == (task.task_id,)
    assert plane.plane.job(job_id)["state"] == "succeeded"


def test_a_parked_acquire_is_answered_when_work_comes(plane: ServedPlane, worker: Worker) -> None:
    worker.register()
    parked = worker.acquire()
    job_id = submit(plane)
    assert [a.job_id for a in parked.result(FINISH_SECONDS).assignments] == [job_id]


def test_an_errand_is_handed_out_and_its_answer_comes_back(
    plane: ServedPlane, worker: Worker
) -> None:
    worker.register(errands=True)
    parked = worker.acquire()
    asked = plane.plane.send_errand("caches", {"what": ["environments"]})
    (errand,) = parked.result(FINISH_SECONDS).errands
    assert (errand.verb, errand.body) == ("caches", {"what": ["environments"]})
    assert plane.plane.errand_answers(asked, last=False) is None
    done = ErrandDone("w", worker.incarnation, errand.id, {"environments": []})
    for _ in range(2):  # harmless twice
        worker.channel.errand_done(done)
    (told,) = plane.plane.errand_answers(asked, last=False) or []
    assert (told["state"], told["answer"]) == ("answered", {"environments": []})


def test_a_parked_acquire_is_answered_when_its_time_is_up(
    plane: ServedPlane, worker: Worker
) -> None:
    worker.register()
    answer = worker.acquire(park=0.05).result(FINISH_SECONDS)
    assert (answer.ok, answer.assignments) == (True, ())


def test_a_parked_acquire_hears_of_a_cancellation(plane: ServedPlane, worker: Worker) -> None:
    worker.register()
    job_id = submit(plane)
    task = worker.task()
    worker.report(held=(Held(task.task_id, task.fence, "running"),))
    parked = worker.acquire()
    plane.plane.cancel(job_id, mode="int", grace_seconds=3.0).result(FINISH_SECONDS)
    (order,) = parked.result(FINISH_SECONDS).cancel
    assert (order.task_id, order.mode, order.grace_seconds) == (task.task_id, "int", 3.0)


def test_whoever_is_not_known_is_told_to_register(plane: ServedPlane, worker: Worker) -> None:
    assert worker.report().ok is False
    assert worker.acquire().result(FINISH_SECONDS).ok is False


def test_a_report_past_the_limit_is_refused_by_name(plane: ServedPlane) -> None:
    """Not a lost connection: that would be tried again for ever."""
    plane.serve()
    channel = HttpChannel.over(plane.socket)
    worker = Worker(channel)
    worker.register()
    end = Exit("succeeded", "exited", value="x" * (BATCH_BYTES + (8 << 20)))
    with pytest.raises(RefusedError, match="64 MiB"):
        worker.report(TaskReport("t1", 1, "exited", 1.0, end, 0))
    assert worker.report().ok, "and the next one is not"
    channel.close()
    worker.pool.shutdown()


def test_log_bytes_by_offset(plane: ServedPlane, worker: Worker) -> None:
    worker.register()
    submit(plane)
    task = worker.task()

    def append(offset: int, data: bytes) -> int:
        return worker.channel.append_log(task.task_id, task.fence, offset, data)

    assert append(0, b"") == 0
    assert append(0, b"abc") == 3
    assert append(1, b"bcd") == 4
    assert append(9, b"gap") == 4
    assert append(4, bytes(range(256)) * 4096) == 4 + 256 * 4096


def test_a_stale_fence_writes_no_log(plane: ServedPlane, worker: Worker) -> None:
    worker.register()
    submit(plane)
    task = worker.task()
    with pytest.raises(NotFoundError):
        worker.channel.append_log(task.task_id, task.fence + 1, 0, b"abc")


def test_a_file_is_stored_under_its_digest(
    plane: ServedPlane, worker: Worker, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    digest = worker.channel.put_artifact(str(path))
    assert digest == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert plane.artifacts.path(digest).read_bytes() == path.read_bytes()
    assert worker.channel.put_artifact(str(path)) == digest
    with open(path, "rb") as held:  # whatever its name means by then
        path.unlink()
        assert worker.channel.put_artifact(f"/dev/fd/{held.fileno()}") == digest
    with pytest.raises(OSError):  # noqa: PT011
        worker.channel.put_artifact(str(tmp_path / "absent"))


def test_small_files_are_stored_together_as_far_as_they_are_lacking(
    plane: ServedPlane, worker: Worker
) -> None:
    files = [(hashlib.sha256(bytes([n])).hexdigest(), bytes([n])) for n in range(60)]
    plane.artifacts.put_stream([files[0][1]])
    worker.channel.put_artifacts(files)
    assert sorted(kept.digest for kept in plane.artifacts.stored()) == sorted(
        digest for digest, _ in files
    )
    worker.channel.put_artifacts(files)
    with pytest.raises(OSError, match="not those that were announced"):
        worker.channel.put_artifacts([("0" * 64, b"x")])


def test_a_checkpoint_is_told_with_what_it_came_to(plane: ServedPlane, worker: Worker) -> None:
    worker.register()
    job_id = plane.submit("true", checkpoint={"path": "ck"})
    task = worker.task()
    data = b"weights"
    digest = hashlib.sha256(data).hexdigest()
    file = {"path": "w", "digest": digest, "size": 7, "executable": False, "mtime_ns": 1}
    message = KeepCheckpoint(task.fence, 1.0, 1.0, (file,))
    assert worker.channel.keep_checkpoint(task.task_id, message).missing == (digest,)
    worker.channel.put_artifacts([(digest, data)])
    assert worker.channel.keep_checkpoint(task.task_id, message).kept
    assert plane.plane.job(job_id)["checkpoint"]["size"] == 7
    stale = KeepCheckpoint(task.fence + 1, 2.0, 2.0, (file,))
    assert worker.channel.keep_checkpoint(task.task_id, stale).over


def test_metrics_are_told_part_by_part(plane: ServedPlane, worker: Worker) -> None:
    worker.register()
    job_id = plane.submit("true")
    task = worker.task()
    series = ({"index": 0, "name": "loss", "points": [[1, 5.0, 0.5], [2, 5.0, "nan"]]},)
    message = KeepMetrics(task.fence, 0, 40, series)
    for _ in range(2):
        assert worker.channel.keep_metrics(task.task_id, message) == MetricsKept(40)
    (told,) = plane.plane.metrics(job_id)["series"]
    assert (told["count"], told["last"]["value"]) == (2, "nan")
    stale = KeepMetrics(task.fence + 1, 40, 80, series)
    assert worker.channel.keep_metrics(task.task_id, stale).over


def test_an_artifact_is_fetched_into_a_file(
    plane: ServedPlane, worker: Worker, tmp_path: Path
) -> None:
    for data in (b"x" * 3_000_000, b""):
        digest, _ = plane.artifacts.put_stream([data])
        worker.channel.get_artifact(digest, str(tmp_path / digest))
        assert (tmp_path / digest).read_bytes() == data
    with pytest.raises(NotFoundError) as refused:
        worker.channel.get_artifact("0" * 64, str(tmp_path / "absent"))
    assert refused.value.code == "artifact-not-found"


def test_a_file_that_becomes_shorter_while_it_is_sent_is_refused_and_the_next_is_not(
    plane: ServedPlane, tmp_path: Path
) -> None:
    plane.serve()
    channel = HttpChannel.over(plane.socket)
    path = tmp_path / "shrinks"
    path.write_bytes(b"x" * 3_000_000)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with path.open("rb") as file:
        path.write_bytes(b"x")
        with pytest.raises(OSError, match="shorter"):
            channel._upload(digest, 3_000_000, file)
    assert channel.put_artifact(str(path)) == hashlib.sha256(b"x").hexdigest()
    channel.close()


def test_an_ending_plane_answers_who_is_parked_and_then_is_gone(
    plane: ServedPlane, worker: Worker
) -> None:
    worker.register()
    parked = worker.acquire()
    plane.plane.leave()
    assert parked.result(FINISH_SECONDS).leave is True
    plane.hang_up()
    for call in _calls(worker):
        with pytest.raises(OSError):  # noqa: PT011  any of them: nothing is known
            call()


def test_closing_ends_a_parked_call_and_refuses_others(plane: ServedPlane, worker: Worker) -> None:
    worker.register()
    parked = worker.acquire()
    worker.channel.close()
    with pytest.raises(OSError):  # noqa: PT011
        parked.result(FINISH_SECONDS)
    worker.channel.close()
    with pytest.raises(OSError):  # noqa: PT011
        worker.report()


def _calls(worker: Worker) -> list[Callable[[], object]]:
    return [
        worker.register,
        worker.report,
        lambda: worker.channel.append_log("t1", 1, 0, b"x"),
    ]
