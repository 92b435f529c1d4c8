"""What NVML and nvidia-smi both say about NVIDIA cards, and the devices that it makes.

Pure: the two sources fill the same `Reading`, so the same machine gives the same devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpulayer.contracts.capabilities import GpuDevice
from gpulayer.gpu.support import normalise_model

FAULTS: Mapping[str, str] = {
    "lost": "the driver has lost it; a reboot brings it back, if the hardware is well",
    "reset": "it must be reset: nvidia-smi --gpu-reset",
    "reboot": "the driver asks for a reboot",
    "ecc": "it had memory errors that could not be corrected; reset it: nvidia-smi --gpu-reset",
    "remap-failed": "bad memory rows can no longer be replaced; the card needs service",
    "remap-pending": "bad memory rows wait to be replaced; reset it: nvidia-smi --gpu-reset",
    "retire-pending": "bad memory pages wait to be retired; reset it: nvidia-smi --gpu-reset",
}
"""Why a card takes no job, worst first."""

GB = 10**9


@dataclass(frozen=True, slots=True)
class Process:
    """One that computes on the card. Bytes; None where the driver does not say."""

    pid: int
    memory: int | None = None
    instance: int | None = None
    """The MIG GPU instance that it is on."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG instance. Sizes in bytes."""

    uuid: str
    profile: str
    instance: int
    memory: int | None = None
    used: int | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """One card as its driver describes it. Sizes in bytes."""

    index: int
    uuid: str
    bus: str
    name: str
    memory: int | None = None
    used: int | None = None
    shared: bool = False
    """The driver knows no memory of its own: the card uses the host's (GB10, Jetson)."""
    utilization: float | None = None
    compute_capability: str | None = None
    partitioned: bool = False
    """MIG is on: only the slices can compute."""
    slices: tuple[Slice, ...] = ()
    processes: tuple[Process, ...] = ()
    links: tuple[str, ...] = ()
    """Bus addresses of cards joined by NVLink; `switch` stands for an NVSwitch fabric."""
    faults: tuple[str, ...] = ()
    """Keys of `FAULTS`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that one source said."""

    driver: str | None = None
    cuda: str | None = None
    cards: tuple[Card, ...] = ()
    silent: tuple[str, ...] = ()
    """One sentence for each card that is there and does not answer."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reading:
        """From the line that `nvml_child` prints."""
        return cls(
            driver=data["driver"],
            cuda=data["cuda"],
            cards=tuple(_card(card) for card in data["cards"]),
            silent=tuple(
                f"GPU {one['index']} does not answer: {one['text']}" for one in data["silent"]
            ),
        )


def devices(
    cards: Iterable[Card],
    *,
    owned: frozenset[int] | None,
    host_memory_gb: float | None,
    numa_node: Callable[[str], int | None],
) -> tuple[GpuDevice, ...]:
    """The devices in PCI bus order. `owned` are our own pids; None: pids cannot be compared."""
    ordered = sorted(cards, key=lambda card: bus_address(card.bus))
    nodes = {card.uuid: numa_node(bus_address(card.bus)) for card in ordered}
    groups = _link_groups(ordered, nodes)
    found: list[GpuDevice] = []
    for index, card in enumerate(ordered):
        fault = next((text for code, text in FAULTS.items() if code in card.faults), None)
        for part in card.slices if card.partitioned else (None,):
            mine = [p for p in card.processes if part is None or p.instance == part.instance]
            foreign = [] if owned is None else [p for p in mine if p.pid not in owned]
            total = card.memory if part is None else part.memory
            used = card.used if part is None else part.used
            name = card.name if part is None else f"{card.name} MIG {part.profile}"
            found.append(
                GpuDevice(
                    uuid=card.uuid if part is None else part.uuid,
                    index=index,
                    vendor="nvidia",
                    name=name,
                    model=normalise_model(name),
                    memory_gb=host_memory_gb if card.shared else _gb(total),
                    memory_kind="unified" if card.shared else "dedicated",
                    compute_capability=card.compute_capability,
                    healthy=fault is None,
                    unhealthy_why=fault,
                    numa_node=nodes[card.uuid],
                    link_group=groups[card.uuid],
                    foreign_pids=tuple(sorted({p.pid for p in foreign})),
                    foreign_memory_gb=_gb(sum(p.memory or 0 for p in foreign)) or 0.0,
                    used_memory_gb=_gb(used),
                    utilization=card.utilization if part is None else None,
                    mig_parent=None if part is None else card.uuid,
                )
            )
    return tuple(found)


def bus_address(text: str) -> str:
    """A PCI address as sysfs writes it: `00000000:3B:00.0` and `3b:00.0` -> `0000:3b:00.0`."""
    domain, _, rest = text.lower().rpartition(":")[0].rpartition(":")
    return f"{int(domain or '0', 16):04x}:{rest}:{text.lower().rpartition(':')[2]}"


def _link_groups(cards: list[Card], nodes: Mapping[str, int | None]) -> dict[str, int | None]:
    """Cards that reach each other over NVLink; without any, those of one NUMA node."""
    group = {bus_address(card.bus): place for place, card in enumerate(cards)}
    for card in cards:
        for end in card.links:
            far = end if end == "switch" else bus_address(end)
            _join(group, bus_address(card.bus), far)
    for card in cards:
        if not card.links and (node := nodes[card.uuid]) is not None:
            _join(group, bus_address(card.bus), f"node {node}")
    numbers: dict[int, int] = {}
    result: dict[str, int | None] = {}
    for card in cards:
        if not card.links and nodes[card.uuid] is None:
            result[card.uuid] = None
            continue
        key = group[bus_address(card.bus)]
        result[card.uuid] = numbers.setdefault(key, len(numbers))
    return result


def _join(group: dict[str, int], one: str, other: str) -> None:
    keep, drop = group[one], group.setdefault(other, group[one])
    for name, number in group.items():
        if number == drop:
            group[name] = keep


def _card(data: Mapping[str, Any]) -> Card:
    return Card(
        **{
            **data,
            "slices": tuple(Slice(**part) for part in data["slices"]),
            "processes": tuple(Process(**process) for process in data["processes"]),
            "links": tuple(data["links"]),
            "faults": tuple(data["faults"]),
        }
    )


def _gb(size: int | None) -> float | None:
    return None if size is None else round(size / GB, 3)
