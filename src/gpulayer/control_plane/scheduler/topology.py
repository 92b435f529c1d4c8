"""Which devices of a machine to give: near each other first, then so that the least is left over.

Devices that NVLink joins are nearest, then those of one NUMA node. Within the nearest kind that
holds all of them, the smallest island that is large enough is used, so that large ones stay whole.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from gpulayer.control_plane.scheduler.views import Layout


class Choice(NamedTuple):
    """What to give, and how good that is; of two choices the smaller `score` is better."""

    score: tuple[int, int]
    """(kind of island: 0 NVLink, 1 NUMA node, 2 several of them; devices left over in it)."""
    bits: int


def choose(layout: Layout, usable: int, count: int) -> Choice:
    """`count` of the `usable` devices (bits; there are enough). Same input, same choice."""
    if not count:
        return Choice((0, 0), 0)
    bits = [i for i in range(len(layout.devices)) if usable >> i & 1]
    linked = _islands(layout, bits, by_link=True)
    for kind, islands in enumerate((linked, _islands(layout, bits, by_link=False))):
        fitting = [island for island in islands if len(island) >= count]
        if fitting:
            island = min(fitting, key=lambda found: (len(found), found))
            return Choice((kind, len(island) - count), _mask(_modest(layout, island)[:count]))
    # The largest islands first: the fewest borders to cross.
    spanning = [
        i
        for island in sorted(linked, key=lambda found: (-len(found), found))
        for i in _modest(layout, island)
    ]
    return Choice((2, len(bits) - count), _mask(spanning[:count]))


def _islands(layout: Layout, bits: list[int], by_link: bool) -> list[list[int]]:
    islands: dict[Hashable, list[int]] = {}
    for i in bits:
        device = layout.devices[i]
        name: Hashable = ("numa", device.numa_node)
        if by_link and device.link_group is not None:
            name = ("link", device.link_group)
        islands.setdefault(name, []).append(i)
    return list(islands.values())


def _modest(layout: Layout, island: list[int]) -> list[int]:
    """The devices with the least memory first: a small job leaves the large ones free."""
    return sorted(island, key=lambda i: (layout.devices[i].memory_gb or 0.0, i))


def _mask(bits: Iterable[int]) -> int:
    return sum(1 << i for i in bits)
