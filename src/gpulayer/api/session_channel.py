"""The channel of a worker that joined: the same verbs, with a session that is renewed and may end.

A session that the plane refuses, that was not replaced meanwhile and that it will not renew either,
is over for good, and so is one that another machine goes on with: `refused` is told once, and every
call from then on fails as if there were no plane.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

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
from gpulayer.errors import RefusedError
from gpulayer.worker.channel import Way, WorkerChannel

T = TypeVar("T")


class Session(Protocol):
    def current(self) -> str:
        """The credential to carry now."""

    def renew(self) -> None:
        """Have another one follow it. May fail; it is asked for again."""


class SessionChannel:
    """Wraps a channel whose clients carry `session.current`. Thread-safe as it is."""

    def __init__(
        self,
        channel: WorkerChannel,
        session: Session,
        *,
        registered: Callable[[], object],
        refused: Callable[[RefusedError], object],
    ) -> None:
        """`registered` is called after each registration. Neither may wait for this channel."""
        self._channel = channel
        self._session = session
        self._registered = registered
        self._refused = refused
        self._renewing = threading.Lock()
        self._is_over = False

    def register(self, message: Register) -> Registered:
        found = self._known(lambda: self._channel.register(message))
        self._registered()
        return found

    def report(self, message: Report) -> ReportReply:
        reply = self._known(lambda: self._channel.report(message))
        if reply.renew and self._renewing.acquire(blocking=False):
            threading.Thread(target=self._renew, name="gpulayer-renew", daemon=True).start()
        return reply

    def acquire(self, message: Acquire) -> Acquired:
        return self._known(lambda: self._channel.acquire(message))

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> int:
        return self._known(lambda: self._channel.append_log(task_id, fence, offset, data))

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> CheckpointKept:
        return self._known(lambda: self._channel.keep_checkpoint(task_id, message))

    def keep_metrics(self, task_id: str, message: KeepMetrics) -> MetricsKept:
        return self._known(lambda: self._channel.keep_metrics(task_id, message))

    def errand_done(self, message: ErrandDone) -> None:
        self._known(lambda: self._channel.errand_done(message))

    def put_artifact(self, path: str) -> str:
        return self._known(lambda: self._channel.put_artifact(path))

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        self._known(lambda: self._channel.put_artifacts(files))

    def get_artifact(self, digest: str, path: str) -> str | None:
        return self._known(lambda: self._channel.get_artifact(digest, path))

    def join_stream(self, stream: str) -> Way:
        return self._channel.join_stream(stream)

    def close(self) -> None:
        self._channel.close()

    def _known(self, call: Callable[[], T]) -> T:
        """A call that was made with a session that has just been replaced says nothing: it is
        made again, as one that was lost."""
        shown = self._session.current()
        try:
            return call()
        except RefusedError as error:
            if error.code not in ("unauthorized", "worker-replaced"):
                raise
            self._not_known(shown, error)
            raise ConnectionError(error.message) from error

    def _not_known(self, shown: str, error: RefusedError) -> None:
        """One that has expired while the machine was off is renewed; else that was the end."""
        with self._renewing:
            if self._is_over or self._session.current() != shown:
                return
            try:
                if error.code == "unauthorized":
                    self._session.renew()
                    return
            except RefusedError:
                pass
            except Exception:
                return  # nothing is known: the next call finds out
            self._is_over = True
        self._refused(error)

    def _renew(self) -> None:
        try:
            self._session.renew()
        except Exception:
            pass  # the next report says again that it is due
        finally:
            self._renewing.release()
