"""The port through which a worker talks to its plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

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


class Way(Protocol):
    """A stream's two directions, as `api.duplex.Duplex` says. For one thread."""

    def fileno(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def is_flushed(self) -> bool: ...
    @property
    def has_ended(self) -> bool: ...
    @property
    def is_pending(self) -> bool: ...
    @property
    def events(self) -> int: ...
    def send(self, kind: str, payload: bytes) -> None: ...
    def send_json(self, message: dict[str, Any]) -> None: ...
    def finish(self) -> None: ...
    def flush(self) -> None: ...
    def receive(self) -> list[tuple[str, Any]]: ...
    def close(self) -> None: ...


class WorkerChannel(Protocol):
    """All verbs block, all are safe to repeat, each may be called from a thread of its own.

    `OSError` means that no plane answered: nothing is known about what it did. Any
    `GPULayerError` is the plane's own answer.
    """

    def register(self, message: Register) -> Registered: ...

    def report(self, message: Report) -> ReportReply: ...

    def acquire(self, message: Acquire) -> Acquired:
        """Parks for up to `message.park_seconds`. Raises at once when the plane ends: this call
        is the held connection by which the worker notices."""

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> int:
        """The size that the plane has now. Overlap is dropped; after a gap the size is smaller
        than `offset`. No data asks for the size alone."""

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> CheckpointKept:
        """Have a checkpoint be the newest of its job, if its attempt still lives there. Raises a
        `GPULayerError` also where the plane is too old for it."""

    def keep_metrics(self, task_id: str, message: KeepMetrics) -> MetricsKept:
        """Add what it has reported, if its attempt still lives there, and that is the next part.
        Raises a `GPULayerError` also where the plane is too old for it."""

    def errand_done(self, message: ErrandDone) -> None:
        """The plane asks again where this is lost."""

    def put_artifact(self, path: str) -> str:
        """Store a file; its SHA-256 in hex. Raises `OSError` also when the file cannot be read."""

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Store small files, (SHA-256, bytes) each, as far as the plane lacks them. As many as a
        pack takes (`artifacts.packs`). Raises `OSError` also when the plane refuses them."""

    def get_artifact(self, digest: str, path: str) -> str | None:
        """The bytes of an artifact as a file. They are not compared with the digest here; theirs is
        told, unless some of them were there before. What is there when this raises
        `ConnectionError` is gone on from by the next call, if the caller leaves it there."""

    def join_stream(self, stream: str) -> Way:
        """The worker's side of a stream. Raises `OSError` where nobody waits for it."""

    def close(self) -> None:
        """End every call in progress; they raise `OSError`. Safe from any thread, and twice."""
