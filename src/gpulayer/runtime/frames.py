"""Frames: the bytes between the supervisor and those who speak to it.

A frame is a 4-byte big-endian payload length, one type byte, and the payload. `J` carries a JSON
object in ASCII (so that bytes kept by `surrogateescape` survive), the other types carry raw
bytes. Descriptors ride by SCM_RIGHTS (unix(7)) with the first byte of a `J` frame whose "fds"
lists their names in order. What the objects say is in `gpulayer.runtime.supervisor`.

`Connection` is the blocking side that the command line, the SDK and the agent use:

    with frames.connect(path) as supervisor:
        supervisor.call("hello", role="client", wire=frames.WIRE, version="0")
        reply = supervisor.call("attach", envelope=envelope, streams={"0": "passed", "1": "pipe",
                                "2": "pipe"}, merged=False, mode="plain", fds={"stdin": 0})
        while True:
            kind, payload, fds = supervisor.recv()
            if kind in (frames.STDOUT, frames.TERMINAL):
                os.write(1, payload)
            elif kind == frames.STDERR:
                os.write(2, payload)
            elif payload.get("event") == "exited":
                break

Not safe to share between threads; one thread may send while another receives.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

WIRE = 1
"""The version of this protocol. Both sides say theirs in `hello`."""

JSON, STDOUT, STDERR, TERMINAL, INPUT, LOG = "J", "1", "2", "T", "I", "L"

MAX_PAYLOAD = 1 << 20
MAX_JSON = 16 << 20
MAX_FDS = 8
"""Descriptors that may wait for their frame; more is a broken or hostile peer."""

HEADER = struct.Struct(">Ic")
CHUNK = 1 << 16
_GONE = "the supervisor closed the connection"


class ProtocolError(Exception):
    """The peer sent what is no frame. The connection is of no more use."""


class Refused(Exception):
    """The supervisor understood and did not do it. `code` is stable, `details` its error object."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.details = dict(details)


def encode(kind: str, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind.encode("ascii")) + payload


def encode_json(message: Mapping[str, Any]) -> bytes:
    """A `J` frame. Raises `ProtocolError` where the message is too large to be read."""
    payload = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    if len(payload) > MAX_JSON:
        raise ProtocolError(f"a message of {len(payload)} bytes is over the limit of {MAX_JSON}")
    return encode(JSON, payload)


class Decoder:
    """Turns bytes as they come into frames; takes any split of them."""

    def __init__(self, max_json: int = MAX_JSON) -> None:
        self._buffer = bytearray()
        self._max_json = max_json
        self._fds: deque[int] = deque()

    def feed(self, data: bytes, fds: Sequence[int] = ()) -> None:
        self._buffer += data
        self._fds.extend(fds)
        if len(self._fds) > MAX_FDS:
            raise ProtocolError("too many descriptors without a frame")

    def frames(self) -> Iterator[tuple[str, Any, list[int]]]:
        """Every whole frame so far: (type, object for `J` else bytes, descriptors)."""
        buffer = self._buffer
        start = 0
        try:
            while len(buffer) - start >= HEADER.size:
                length, raw_kind = HEADER.unpack_from(buffer, start)
                kind = raw_kind.decode("latin-1")
                if length > (self._max_json if kind == JSON else MAX_PAYLOAD):
                    raise ProtocolError(f"a frame of {length} bytes is over the limit")
                end = start + HEADER.size + length
                if len(buffer) < end:
                    break
                payload = bytes(memoryview(buffer)[start + HEADER.size : end])
                start = end
                if kind == JSON:
                    message = _parse(payload)
                    yield kind, message, self._take(message)
                else:
                    yield kind, payload, []
        finally:
            del buffer[:start]

    def close(self) -> None:
        """Closes descriptors whose frame never came."""
        while self._fds:
            os.close(self._fds.popleft())

    def _take(self, message: Mapping[str, Any]) -> list[int]:
        names = message.get("fds")
        if not names:
            return []
        if not isinstance(names, list) or len(names) > len(self._fds):
            raise ProtocolError("a frame names descriptors that did not come with it")
        if len({str(name) for name in names}) < len(names):
            raise ProtocolError("a frame gives two descriptors one name")
        return [self._fds.popleft() for _ in names]


class Connection:
    """The blocking side of a connection to the supervisor."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._decoder = Decoder()
        self._frames: deque[tuple[str, Any, list[int]]] = deque()
        self._seq = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._decoder.close()
        self._sock.close()

    def send(self, kind: str, payload: bytes) -> None:
        """EOFError where the supervisor is gone, as everywhere here."""
        self._send(encode(kind, payload), ())

    def send_json(self, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Sends an object; `message["fds"]` must name each of `fds`, which stay the caller's."""
        self._send(encode_json(message), fds)

    def recv(self) -> tuple[str, Any, list[int]]:
        """The next frame: (type, object for `J` else bytes, descriptors). EOFError at the end."""
        while not self._frames:
            self._read()
        return self._frames.popleft()

    @property
    def has_waiting(self) -> bool:
        """Frames came with the answer to a `call`: no `select` tells of them."""
        return bool(self._frames)

    def ready(self) -> list[tuple[str, Any, list[int]]]:
        """After `select` said readable, or where `has_waiting`: one read, unless some wait, and
        every whole frame there is (maybe none)."""
        if not self._frames:
            self._read()
        frames = list(self._frames)
        self._frames.clear()
        return frames

    def greet(self, role: str, version: str, timeout: float | None = None) -> dict[str, Any]:
        """Says hello. TimeoutError where the supervisor says nothing for `timeout` seconds: it is
        stopped, or no supervisor."""
        self._sock.settimeout(timeout)
        try:
            return self.call("hello", role=role, wire=WIRE, version=version)
        finally:
            self._sock.settimeout(None)

    def call(self, op: str, fds: Mapping[str, int] | None = None, **fields: Any) -> dict[str, Any]:
        """Asks and waits for the answer; other frames that come meanwhile stay for `recv`.

        Raises `Refused` with the supervisor's code, and EOFError where it is gone.
        """
        self._seq += 1
        seq = self._seq
        message: dict[str, Any] = {"op": op, "seq": seq, **fields}
        if fds:
            message["fds"] = list(fds)
        self.send_json(message, list(fds.values()) if fds else ())
        looked = 0
        while True:
            while looked < len(self._frames):
                kind, payload, _ = self._frames[looked]
                if kind == JSON and payload.get("seq") == seq:
                    del self._frames[looked]
                    return answer(payload)
                looked += 1
            self._read()

    def _send(self, data: bytes, fds: Sequence[int]) -> None:
        try:
            sent = send_with_fds(self._sock, data, fds) if fds else 0
            self._sock.sendall(memoryview(data)[sent:])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError(_GONE) from error

    def _read(self) -> None:
        try:
            data, fds = receive_with_fds(self._sock, CHUNK)
        except ConnectionResetError as error:
            raise EOFError(_GONE) from error
        if not data:
            raise EOFError(_GONE)
        self._decoder.feed(data, fds)
        self._frames.extend(self._decoder.frames())


def connect(path: str, timeout: float | None = None) -> Connection:
    """Connects to the socket at `path`. OSError where nobody listens; `timeout` is in seconds."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return Connection(sock)


def answer(reply: Mapping[str, Any]) -> dict[str, Any]:
    """The reply itself, or its error raised as `Refused`."""
    error = reply.get("error")
    if error:
        raise Refused(error.get("code", "refused"), error.get("message", ""), error)
    return dict(reply)


def send_with_fds(sock: socket.socket, data: bytes, fds: Sequence[int]) -> int:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
    return sock.sendmsg([data], [rights])


def receive_with_fds(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """One read. Descriptors that came with it are close-on-exec and the caller's."""
    space = socket.CMSG_SPACE(MAX_FDS * 4)
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    data, ancillary, _, _ = sock.recvmsg(size, space, flags)
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return data, list(fds)


def _parse(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a frame holds no JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("a frame holds JSON that is no object")
    return message
