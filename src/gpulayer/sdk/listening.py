"""Where a served plane listens, and the address by which others reach it.

    --listen 0.0.0.0   --listen :9000   --listen [::]:8765   --listen 127.0.0.1 --plain

A port of 0 is any free one. What others are told is `--advertise`, else the address that was
listened on, else, where that means all of them, the one by which this machine reaches the rest of
the world; no packet is sent to find out.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from dataclasses import dataclass

from gpulayer.errors import GPULayerError, RefusedError, UsageError

PORT = 8765
BACKLOG = 4096
_FORM = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]*))(?::(\d{1,5}))?")
_ALL = frozenset({"", "0.0.0.0", "::"})
_SOMEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""For documentation (RFC 5737, RFC 3849): nobody is there, and nothing is sent."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str) -> Address:
    """Of `--listen`. Raises `usage`."""
    match = _FORM.fullmatch(text)
    if match is None or not int(match[3] or 0) < 65_536:
        raise UsageError(
            "usage",
            f"--listen: {text!r} is not ADDRESS or ADDRESS:PORT",
            hint="gpulayer serve --listen 0.0.0.0",
        )
    host = match[1] or match[2]
    return Address(host or "0.0.0.0", PORT if match[3] is None else int(match[3]))


def bind(address: Address) -> socket.socket:
    """A listening socket. Raises `port-in-use`, or `usage` where this machine has no such
    address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = None
    try:
        found = socket.getaddrinfo(
            address.host, address.port, family if address.host in _ALL else 0, socket.SOCK_STREAM
        )
        family, _, _, _, where = found[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Each connection inherits it; asyncio sets it only where a socket names its protocol. An
        # answer in two writes waits 40 ms for the client's acknowledgement else (tcp(7)).
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address.host != "::"))
        sock.bind(where)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise _cannot(address, error) from error
    return sock


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def is_loopback(sock: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    host = str(sock.getsockname()[0])
    return host.startswith("127.") or host == "::1"


def advertised(listened: Address, sock: socket.socket, wish: str | None) -> Address:
    """What others are told."""
    port = port_of(sock)
    if wish:
        told = parse(wish)
        return Address(told.host, told.port if re.search(r":\d+$", wish) else port)
    if listened.host not in _ALL:
        return Address(listened.host, port)
    for family, somewhere in _SOMEWHERE.items():
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((somewhere, 9))
                return Address(str(probe.getsockname()[0]), port)
        except OSError:
            continue
    return Address(os.uname().nodename, port)


def names_of(*addresses: Address) -> set[str]:
    """By which this machine and those addresses may be called, as far as they have names."""
    host = os.uname().nodename
    return {host, host.partition(".")[0], *(address.host for address in addresses)}


def _cannot(address: Address, error: OSError) -> GPULayerError:
    if error.errno == errno.EADDRINUSE:
        return RefusedError(
            "port-in-use",
            f"{address} is taken by another program",
            hint=f"gpulayer serve --listen {Address(address.host, address.port + 1)}",
        )
    if error.errno == errno.EACCES:
        why = "ports below 1024 are the system's"
    else:
        why = error.strerror or str(error)
    return UsageError(
        "usage",
        f"cannot listen on {address}",
        why=why,
        hint="gpulayer serve --listen 0.0.0.0",
    )
