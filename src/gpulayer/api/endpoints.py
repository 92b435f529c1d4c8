"""Where a plane listens, and how a connection to it is made.

    Unix    a socket of this machine; the system says who is at the other end
    Far     HOST:PORT. With a pin over TLS, without one in plain text and on loopback alone

No authority vouches for a server: its certificate is its own, and what counts is that the SHA-256
of it (DER, RFC 5280) is the one that its address line carries. That is compared after the
handshake and before the first byte of a request. No proxy is asked and no variable of the
environment names one.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Any, Protocol

from gpulayer.errors import RefusedError, UsageError

CONNECT_SECONDS = 10.0
"""Longest wait for a server that does not even refuse."""
KEEP_ALIVE = (20, 5, 4)
"""Seconds of silence, between two probes, and probes, until a vanished server is noticed."""

_ADDRESS = re.compile(r"(gl|https|http)://(\[[0-9a-fA-F:.]+\]|[\w.-]+):(\d{1,5})(?:/(.*))?")
_PIN = re.compile(r"(?:([A-Za-z0-9_-]+)-)?sha256\.([0-9a-fA-F]{64})")
_CODE = re.compile(r"[A-Za-z0-9_-]+")
_TOO_OLD = {"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE"}


class Endpoint(Protocol):
    @property
    def host(self) -> str:
        """For the Host header."""

    def connect(self, timeout: float) -> socket.socket:
        """A connected socket. Raises TimeoutError where somebody is there and busy,
        ConnectionError or FileNotFoundError where nobody is."""


SEND_BYTES = 1 << 20
"""What a private socket takes while its other end is busy; each time it is full, two processes
change places. The kernel may give less (net.core.wmem_max)."""


@dataclass(frozen=True, slots=True)
class Unix:
    path: str
    host: str = "localhost"

    def __str__(self) -> str:
        return self.path

    def connect(self, timeout: float) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
            sock.settimeout(timeout)
            sock.connect(self.path)
        except BlockingIOError as error:  # a full backlog: the plane is there and busy
            sock.close()
            raise TimeoutError(self.path) from error
        except BaseException:
            sock.close()
            raise
        return sock


@dataclass(frozen=True, slots=True)
class Far:
    name: str
    """A host name or an address, without brackets."""
    port: int
    pin: str | None = None
    """SHA-256 of the server's certificate, 64 digits. None: plain HTTP, on loopback alone."""

    def __str__(self) -> str:
        return f"{'https' if self.pin else 'http'}://{self.host}"

    @property
    def host(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    @property
    def url(self) -> str:
        """What `parse` reads."""
        return f"gl://{self.host}/sha256.{self.pin}" if self.pin else str(self)

    def connect(self, timeout: float) -> socket.socket:
        """Also raises `tls-untrusted`, `not-a-server` and `not-encrypted`."""
        sock = self._reach(min(timeout, CONNECT_SECONDS))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _notice_death(sock)
            if self.pin is None:
                if not _is_loopback(sock.getpeername()[0]):
                    raise _not_encrypted(str(self))
                return sock
            return self._secured(sock)
        except BaseException:
            sock.close()
            raise

    def _reach(self, timeout: float) -> socket.socket:
        try:
            return socket.create_connection((self.name, self.port), timeout)
        except TimeoutError:
            raise ConnectionError(f"no answer within {timeout:.0f} s") from None
        except OSError as error:  # refused, no such name, no route: nobody is there
            raise ConnectionError((error.strerror or str(error)).lower()) from error

    def _secured(self, sock: socket.socket) -> socket.socket:
        import hmac
        import ssl
        from hashlib import sha256

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # no authority: the pin, below
        try:
            secured = context.wrap_socket(sock)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise ConnectionResetError("the connection ended within the handshake") from error
        except TimeoutError:
            raise ConnectionError("the handshake did not end in time") from None
        except ssl.SSLError as error:
            raise self._no_tls(error.reason or str(error)) from error
        presented = sha256(secured.getpeercert(binary_form=True) or b"").hexdigest()
        if not hmac.compare_digest(presented, (self.pin or "").lower()):
            secured.close()
            raise self._untrusted(presented)
        return secured

    def _untrusted(self, presented: str) -> RefusedError:
        return RefusedError(
            "tls-untrusted",
            f"the certificate of {self.host} is not the pinned one; nothing was sent",
            where=f"pinned sha256.{self.pin}, presented sha256.{presented}",
            why="the server made itself a new certificate, or someone is in between: there, "
            "`gpulayer doctor` shows the true one, and `gpulayer invite --client` prints a line "
            "that pins it for `gpulayer login`",
            hint=("gpulayer invite --client", "gpulayer login --help"),
        )

    def _no_tls(self, reason: str) -> RefusedError:
        if reason in _TOO_OLD:
            return RefusedError(
                "tls-untrusted",
                f"{self.host} speaks no TLS that is new enough; nothing was sent",
                why="at least TLS 1.2 is needed",
                hint="gpulayer help tls-untrusted",
            )
        return RefusedError(
            "not-a-server",
            f"what answers at {self.host} does not speak TLS; nothing was sent",
            why=reason.replace("_", " ").lower(),
            hint="gpulayer help not-a-server",
        )


@dataclass(frozen=True, slots=True)
class Address:
    """A line that names a server, and perhaps carries a code for it."""

    endpoint: Far
    code: str | None = None


def parse(text: str) -> Address:
    """Reads `gl://HOST:PORT/CODE-sha256.FP`, the same without a code, https in place of gl, and
    `http://HOST:PORT/CODE` on loopback. Raises `usage` and `not-encrypted`; sends nothing."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or not 0 < int(match[3]) < 65_536:
        raise _unreadable(text, "it is not gl://HOST:PORT/...-sha256.FINGERPRINT")
    scheme, name, port, rest = match[1], match[2].strip("[]"), int(match[3]), match[4] or ""
    if scheme == "http":
        if not (name == "localhost" or _is_loopback(name)):
            raise _not_encrypted(f"http://{match[2]}:{port}")
        if rest and _CODE.fullmatch(rest) is None:
            raise _unreadable(text, "an http address has at most a code behind its port")
        return Address(Far(name, port), rest or None)
    pinned = _PIN.fullmatch(rest)
    if pinned is None:
        raise _unreadable(text, "its fingerprint, sha256. and 64 digits, is missing or cut off")
    return Address(Far(name, port, pinned[2].lower()), pinned[1])


def _unreadable(text: str, why: str) -> UsageError:
    shown = text if len(text) <= 120 else f"{text[:120]}..."
    return UsageError(
        "usage",
        f"{shown!r} is not the address of a server",
        why=why,
        hint="gpulayer login --help",
    )


def _not_encrypted(where: str) -> RefusedError:
    return RefusedError(
        "not-encrypted",
        f"{where} is another machine, and http would carry the token in plain text",
        why="plain http is for loopback alone; nothing was sent",
        hint="gpulayer invite --client",
    )


def _is_loopback(name: str) -> bool:
    for family, size in ((socket.AF_INET, 4), (socket.AF_INET6, 16)):
        try:
            packed = socket.inet_pton(family, name)
        except (OSError, ValueError):
            continue
        mapped = packed[-4:] if packed[:-4] in (b"", bytes(10) + b"\xff\xff") else b""
        return mapped[:1] == b"\x7f" or (size == 16 and packed == bytes(15) + b"\x01")
    return False


def _notice_death(sock: socket.socket) -> None:
    """A server that vanished without a word ends a parked call within a minute (tcp(7))."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options: Any = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    for name, value in zip(options, KEEP_ALIVE, strict=True):
        option = getattr(socket, name, None)  # the idle time has another name on macOS
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
