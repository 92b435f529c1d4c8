"""Near each other first, then the least left over."""

from __future__ import annotations

from typing import Any

from gpulayer.control_plane.scheduler.topology import choose
from gpulayer.control_plane.scheduler.views import Layout
from tests.support.builders import a_gpu


def layout(*places: dict[str, Any]) -> Layout:
    return Layout(tuple(a_gpu(f"GPU-{i}", index=i, **place) for i, place in enumerate(places)))


def chosen(machine: Layout, count: int, usable: int | None = None) -> list[int]:
    every = (1 << len(machine.devices)) - 1
    bits = choose(machine, every if usable is None else usable, count).bits
    return [i for i in range(len(machine.devices)) if bits >> i & 1]


LINKED = layout(*({"link_group": i // 4, "numa_node": i // 4} for i in range(8)))
PAIRS = layout(*({"link_group": i // 2, "numa_node": i // 4} for i in range(8)))


def test_linked_devices_are_given_together() -> None:
    assert chosen(LINKED, 4, usable=0b11111100) == [4, 5, 6, 7]


def test_the_smallest_island_that_is_large_enough_is_used() -> None:
    assert chosen(LINKED, 2, usable=0b11111100) == [2, 3]


def test_without_an_island_of_links_one_numa_node_is_next() -> None:
    assert chosen(PAIRS, 4, usable=0b11110011) == [4, 5, 6, 7]


def test_across_nodes_as_few_borders_as_possible() -> None:
    assert chosen(LINKED, 6, usable=0b11111111) == [0, 1, 2, 3, 4, 5]
    assert chosen(LINKED, 3, usable=0b11000001) == [0, 6, 7]


def test_a_small_device_is_given_before_a_large_one() -> None:
    mixed = layout({"memory_gb": 80.0}, {"memory_gb": 24.0})
    assert chosen(mixed, 1) == [1]


def test_nearness_counts_before_leftovers_and_leftovers_count() -> None:
    near = choose(LINKED, 0b11111111, 2).score
    nearer_to_full = choose(LINKED, 0b00001100, 2).score
    far = choose(LINKED, 0b00010001, 2).score
    assert nearer_to_full < near < far
