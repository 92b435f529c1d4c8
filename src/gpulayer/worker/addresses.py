"""Where the nodes of a gang meet: an address of node 0 that the others reach, and a port there.

Always a literal: names may mean another address on another machine, or loopback (pytorch #150532).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.runtime.distributed import LOOPBACK


def meeting_place(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Node 0's address for the others. On one machine it is loopback; else the one by which it
    reaches the plane. The plane's own machine has none: it takes the one that looks towards the
    first node elsewhere."""
    first, *others = nodes
    elsewhere = [n for n in others if n["worker_id"] != first["worker_id"] and _is_far(n)]
    if _is_far(first) and any(n["worker_id"] != first["worker_id"] for n in others):
        return str(first["address"])
    return own_address(str(elsewhere[0]["address"])) if elsewhere else LOOPBACK


def free_port(address: str) -> int:
    """One that nobody has now."""
    with socket.socket(_family(address)) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def own_address(towards: str) -> str:
    """Ours on the way to another one, or to a host (udp(7): to connect sends nothing). Raises
    OSError where there is no way."""
    family, kind, _, _, there = socket.getaddrinfo(towards, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(there)
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str | None:
    """The name of the interface that has this address of ours; None: none has."""
    import psutil  # distributed jobs alone need it

    for name, found in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == address for entry in found):
            return str(name)
    return None


def _is_far(node: Mapping[str, Any]) -> bool:
    address = node.get("address")
    return bool(address) and not ipaddress.ip_address(str(address).partition("%")[0]).is_loopback


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
