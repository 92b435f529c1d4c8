"""The worker's verbs on a plane of the same process: `worker.channel.WorkerChannel` by calls."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from gpulayer.api.answers import Parked, settle_blocking
from gpulayer.artifacts.digesting import Checked
from gpulayer.artifacts.port import ArtifactStore
from gpulayer.contracts.messages import (
    Acquire,
    Acquired,
    CheckpointKept,
    ErrandDone,
    KeepCheckpoint,
    KeepMetrics,
    MetricsKept,
    Register,
    Registered,
    Report,
    ReportReply,
)
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.wakeups import worker_topic
from gpulayer.errors import GPULayerError, UnreachableError
from gpulayer.worker.channel import Way

T = TypeVar("T")

_PIECE = 1 << 20


class DirectChannel:
    """Each verb runs in its caller's thread. After `close` every call raises `OSError`."""

    def __init__(self, plane: ControlPlane, artifacts: ArtifactStore) -> None:
        self._plane = plane
        self._artifacts = artifacts
        self._topic: str | None = None
        self._closed = False

    def register(self, message: Register) -> Registered:
        return self._answer(lambda: self._plane.register(message))

    def report(self, message: Report) -> ReportReply:
        return self._answer(lambda: self._plane.report(message))

    def acquire(self, message: Acquire) -> Acquired:
        self._topic = topic = worker_topic(message.worker_id)

        def look(last: bool) -> Acquired | None:
            found = self._answer(lambda: self._plane.acquire_now(message))
            return found if last or found.is_news else None

        parked = Parked((topic,), message.park_seconds, look)
        acquired: Acquired = settle_blocking(parked, self._plane.wakeups)
        return acquired

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> int:
        return self._answer(lambda: self._plane.append_log(task_id, fence, offset, data))

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> CheckpointKept:
        return self._answer(lambda: self._plane.keep_checkpoint(task_id, message))

    def keep_metrics(self, task_id: str, message: KeepMetrics) -> MetricsKept:
        return self._answer(lambda: self._plane.keep_metrics(task_id, message))

    def errand_done(self, message: ErrandDone) -> None:
        self._plane.errand_done(message)

    def put_artifact(self, path: str) -> str:
        try:
            with open(path, "rb") as file:  # also a `/dev/fd/N`, which is a link
                digest, _ = self._artifacts.put_stream(iter(lambda: file.read(_PIECE), b""))
        except GPULayerError as error:
            raise OSError(0, error.message) from error
        return digest

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        try:
            self._artifacts.put_many(
                (d, (data,)) for d, data in files if not self._artifacts.touch(d)
            )
        except GPULayerError as error:
            raise OSError(0, error.message) from error

    def get_artifact(self, digest: str, path: str) -> str | None:
        with self._artifacts.open(digest) as source, open(path, "wb") as file:
            target = Checked(file)
            shutil.copyfileobj(source, target, _PIECE)
            return target.digest()

    def join_stream(self, stream: str) -> Way:
        raise ConnectionRefusedError("jobs of a plane inside a program cannot be entered")

    def close(self) -> None:
        self._closed = True
        if self._topic is not None:
            self._plane.wakeups.publish(self._topic)

    def _answer(self, ask: Callable[[], Future[T]]) -> T:
        if self._closed:
            raise ConnectionAbortedError("the plane of this process has ended")
        try:
            return ask().result()
        except UnreachableError as error:
            raise ConnectionAbortedError(error.message) from error
