"""The names by which strangers may call a plane.

A page of another site can give its own name our address (DNS rebinding), and a browser then takes
us for that site; the Host header still tells the name (RFC 9110, 7.2). An address is nobody's
trick: it is answered as it is.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:/@\[\]]+))(?::\d{1,5})?")
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


class HostNames:
    """`names` may begin with `*.`, as those of certificates: it stands for one label."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(map(_plain, names)) | {"localhost"}

    def answers(self, header: bytes, *, is_plain: bool) -> bool:
        """Whether that value of Host is ours. Without TLS the plane is for its own machine."""
        match = _HOST.fullmatch(header.decode("latin-1").lower())
        if match is None:
            return False
        host = _plain(match[1] or match[2])
        if is_plain:
            return _LOOPBACK.fullmatch(host) is not None
        if host in self._names or _is_address(host):
            return True
        first, _, rest = host.partition(".")
        return bool(first and rest) and f"*.{rest}" in self._names

    def __str__(self) -> str:
        return ", ".join(sorted(self._names))


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
