"""Where the nodes of a gang meet."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from gpulayer.worker import addresses


def node(worker: str, address: str | None = None) -> dict[str, Any]:
    return {"worker_id": worker, "name": worker, "address": address}


OWN = "203.0.113.9"


@pytest.mark.parametrize(
    ("nodes", "address"),
    [
        ([node("a"), node("a")], "127.0.0.1"),
        ([node("a", OWN), node("a", OWN)], "127.0.0.1"),
        ([node("a", OWN), node("b", "203.0.113.8")], OWN),
        ([node("a", "fd00::1"), node("b", "fd00::2")], "fd00::1"),
        ([node("a", "127.0.0.1"), node("b", "127.0.0.1")], "127.0.0.1"),
        ([node("plane"), node("b", "127.0.0.1")], "127.0.0.1"),
        ([node("plane"), node("b", "::1")], "127.0.0.1"),
        ([node("a", OWN), node("plane")], OWN),
    ],
)
def test_loopback_on_one_machine_else_what_the_first_node_is_seen_by(
    nodes: list[dict[str, Any]], address: str
) -> None:
    assert addresses.meeting_place(nodes) == address


def test_the_way_to_this_machine_itself_is_loopback() -> None:
    assert addresses.own_address("127.0.0.1") == "127.0.0.1"
    assert addresses.own_address("localhost") in ("127.0.0.1", "::1")


def test_a_port_is_free_and_an_interface_is_found_by_its_address() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", addresses.free_port("127.0.0.1")))
    assert addresses.interface_of("127.0.0.1") in ("lo", "lo0")
    assert addresses.interface_of("192.0.2.1") is None
