"""The worker's verbs over HTTP: `worker.channel.WorkerChannel` by the table of routes.

Reports, the parked acquire, log bytes, uploads and downloads each have a connection of their own,
so that bulk never delays a heartbeat and the acquire is the held connection that tells of a lost
plane.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from threading import Condition, Lock
from typing import Any, BinaryIO, Protocol, cast

from gpulayer.api import transfers
from gpulayer.api.endpoints import Endpoint, Far
from gpulayer.api.presigned import LEAST_BYTES, Direct
from gpulayer.api.wire import Wire
from gpulayer.artifacts import packs
from gpulayer.artifacts.digesting import Checked
from gpulayer.clock import SystemClock
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
from gpulayer.errors import GPULayerError, StorageError, UnreachableError
from gpulayer.runtime import crash
from gpulayer.worker.addresses import own_address
from gpulayer.worker.channel import Way

CHUNK = 1 << 20


class Client(Protocol):
    """What is needed of `wire.Wire`."""

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, park: float = 0.0
    ) -> Any: ...

    def request(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        park: float = 0.0,
        sink: BinaryIO | None = None,
        tries: int | None = None,
    ) -> Any: ...

    def stream(self, path: str) -> Way: ...

    def interrupt(self) -> None: ...

    def close(self) -> None: ...


class HttpChannel:
    """One plane at one socket path; it may come and go."""

    def __init__(self, connect: Callable[[Callable[[], None]], Client]) -> None:
        """`connect` makes a client; it is given what that client must call before it tries an
        exchange again, which raises once this channel is closed."""
        self._reports = connect(self._still_open)
        self._acquires = connect(self._still_open)
        self._logs = connect(self._still_open)
        self._artifacts = connect(self._still_open)
        self._downloads = connect(self._still_open)
        self._uploading, self._downloading = Lock(), Lock()
        self.direct = Direct(SystemClock(), self._still_open)
        self._calls = Condition()
        self._in_progress = 0
        self._closed = False
        self._plane_host: str | None = None
        """Of a plane on the network."""

    @classmethod
    def over(cls, where: str | Endpoint, token: Callable[[], str] | None = None) -> HttpChannel:
        """One try per call: an agent that hears nothing registers again, and that is the one way
        back."""
        channel = cls(lambda revive: Wire(where, token=token, revive=revive, tries=1))
        if isinstance(where, Far):
            channel._plane_host = where.name
        return channel

    def register(self, message: Register) -> Registered:
        body = self._at_home(message.to_json())
        self.direct.begin()
        return Registered.from_json(self._post(self._reports, "register", body))

    def report(self, message: Report) -> ReportReply:
        body = self._at_home(message.to_json())
        return ReportReply.from_json(self._post(self._reports, "report", body))

    def acquire(self, message: Acquire) -> Acquired:
        body = message.to_json()
        return Acquired.from_json(self._post(self._acquires, "acquire", body, message.park_seconds))

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> int:
        path = f"/v1/worker/tasks/{task_id}/log?offset={offset}&fence={fence}"
        crash.point("agent-says-log")
        size = int(self._reached(lambda: self._logs.request("PUT", path, data)).json()["size"])
        crash.point("agent-heard-log")
        return size

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> CheckpointKept:
        path, body = f"/v1/worker/tasks/{task_id}/checkpoint", message.to_json()
        with self._uploading:
            crash.point("agent-says-checkpoint")
            answer = self._reached(lambda: self._artifacts.call("PUT", path, body))
            crash.point("agent-heard-checkpoint")
        return CheckpointKept.from_json(answer)

    def keep_metrics(self, task_id: str, message: KeepMetrics) -> MetricsKept:
        path, body = f"/v1/worker/tasks/{task_id}/metrics", message.to_json()
        return MetricsKept.from_json(self._reached(lambda: self._logs.call("PUT", path, body)))

    def errand_done(self, message: ErrandDone) -> None:
        self._post(self._logs, "errand", message.to_json())

    def put_artifact(self, path: str) -> str:
        """A file that changes between the two reads is refused by the plane: `OSError`."""
        with self._uploading, open(path, "rb") as file:
            digest, size = sha256(), 0
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
            try:
                self._upload(digest.hexdigest(), size, file)
            except GPULayerError as error:
                raise OSError(0, error.message) from error
            return digest.hexdigest()

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        with self._uploading:
            try:
                asked = {"digests": [digest for digest, _ in files]}
                path, client = transfers.MISSING, self._artifacts
                missing = self._reached(lambda: client.call("POST", path, asked))
                lacking = set(missing["missing"])
                wanted = {digest: data for digest, data in files if digest in lacking}
                if wanted:
                    head = packs.head_of((digest, len(data)) for digest, data in wanted.items())
                    body = b"".join((head, *wanted.values()))
                    self._reached(lambda: self._packed(body))
            except GPULayerError as error:
                raise OSError(0, error.message) from error

    def get_artifact(self, digest: str, path: str) -> str | None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._downloading, open(os.open(path, flags, 0o600), "r+b") as file:
            file.seek(0, os.SEEK_END)
            client, checked = self._downloads, Checked(file)
            sink = cast("BinaryIO", checked)
            if not self._reached(lambda: self.direct.download(client, digest, sink)):
                self._reached(lambda: transfers.download(client, digest, sink))
            return checked.digest()

    def join_stream(self, stream: str) -> Way:
        """Of its own connection: what is cut off there concerns nothing else."""
        try:
            return self._reports.stream(f"/v1/worker/streams/{stream}")
        except GPULayerError as error:
            raise ConnectionError(error.message) from error

    def _upload(self, digest: str, size: int, file: BinaryIO) -> None:
        body, client = _FirstBytes(file, size), self._artifacts
        try:
            self._reached(lambda: self._sent(client, digest, body, size))
        except OSError:
            self._artifacts.close()  # half a request may have been sent
            raise

    def _sent(self, client: Client, digest: str, body: _FirstBytes, size: int) -> None:
        """Past the plane where it has nothing of it and there is such a way, else through it."""
        if size >= LEAST_BYTES:
            answer = client.call("POST", transfers.MISSING, {"digests": [digest]})
            if not answer["missing"]:
                return
            if not answer.get("begun") and self.direct.upload(client, digest, body, size):
                return
        transfers.upload(client, digest, body, size, self._still_open)

    def _packed(self, body: bytes) -> Any:
        park = transfers.STORING_SECONDS
        return self._artifacts.request("PUT", "/v1/artifacts", body, park=park)

    def close(self) -> None:
        clients = (
            self._reports, self._acquires, self._logs, self._artifacts, self._downloads,
        )  # fmt: skip
        with self._calls:
            self._closed = True
            while self._in_progress:  # one that is just connecting is met the next time round
                for client in clients:
                    client.interrupt()
                self._calls.wait(0.02)
            for client in clients:
                client.close()

    def _at_home(self, body: dict[str, Any]) -> dict[str, Any]:
        """With our own address on the way to the plane, where capabilities are told."""
        if body.get("capabilities") is None or self._plane_host is None:
            return body
        try:
            address = own_address(self._plane_host)
        except OSError:
            return body  # nothing can be sent either
        return {**body, "capabilities": {**body["capabilities"], "address": address}}

    def _reached(self, exchange: Callable[[], Any]) -> Any:
        with self._calls:
            self._still_open()
            self._in_progress += 1
        try:
            return exchange()
        except UnreachableError as error:
            raise ConnectionError(error.message) from error
        except StorageError as error:
            if error.code != "bucket-unreachable":
                raise
            raise ConnectionError(error.message) from error  # it comes back, as a plane does
        finally:
            with self._calls:
                self._in_progress -= 1
                self._calls.notify_all()

    def _post(self, client: Client, verb: str, body: Mapping[str, Any], park: float = 0.0) -> Any:
        crash.point(f"agent-says-{verb}")
        path = f"/v1/worker/{verb}"
        answer = self._reached(lambda: client.call("POST", path, body, park=park))
        crash.point(f"agent-heard-{verb}")
        return answer

    def _still_open(self) -> None:
        if self._closed:
            raise ConnectionAbortedError(os.strerror(103))


class _FirstBytes:
    """The first bytes of a file that may change: never more, and fewer is an error."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = self._left = size

    def seek(self, offset: int) -> None:
        self._file.seek(offset)
        self._left = self._size - offset

    def read(self, size: int = -1) -> bytes:
        size = self._left if size < 0 else size
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        if not data and self._left:
            raise OSError(0, "it became shorter while it was sent")
        return data
