"""AMD GPUs, as the kernel's compute driver lists them; reported, and never scheduled yet.

Identity and memory come from the KFD topology in sysfs (drivers/gpu/drm/amd/amdkfd/kfd_topology.c),
which needs no process. The name that people know is only in `amd-smi static --json`, or in the
older `rocm-smi --json`; without both the architecture stands in for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpulayer.contracts.capabilities import GpuDevice
from gpulayer.gpu import host
from gpulayer.gpu.found import Found
from gpulayer.gpu.machine import Machine
from gpulayer.gpu.nvidia_cards import bus_address
from gpulayer.gpu.support import normalise_model

DEADLINE_SECONDS = 10.0
_OWN_HEAPS = (1, 2)
"""Of the card itself: visible and not visible to the host; 0 is the host's memory."""

NODES = "/sys/class/kfd/kfd/topology/nodes"


@dataclass(frozen=True, slots=True)
class Told:
    """What a program says about one GPU."""

    name: str
    memory: int | None = None


def signs(machine: Machine) -> bool:
    return machine.exists("/dev/kfd")


def discover(machine: Machine) -> Found:
    """All GPU nodes of the compute driver."""
    nodes = _nodes(machine)
    if not nodes:
        return Found(notes=("the AMD compute driver is loaded, and lists no GPU",))
    names = _from_amd_smi(machine) or _from_rocm_smi(machine)
    driver = (machine.read("/sys/module/amdgpu/version") or "").strip() or None
    found = []
    for index, node in enumerate(sorted(nodes, key=_bus)):
        told = names.get(_bus(node), Told(name=f"AMD {_architecture(node)}"))
        memory = node.get("memory") or told.memory
        bus = _bus(node)
        numa = (machine.read(f"/sys/bus/pci/devices/{bus}/numa_node") or "").strip()
        found.append(
            GpuDevice(
                uuid=_uuid(node),
                index=index,
                vendor="amd",
                name=told.name,
                model=normalise_model(told.name),
                memory_gb=None if not memory else round(memory / host.GB, 3),
                memory_kind="dedicated",
                numa_node=int(numa) if numa.isdigit() else None,
                link_group=0 if node.get("hive_id") else None,
            )
        )
    return Found(tuple(found), driver=driver)


def _nodes(machine: Machine) -> list[dict[str, int]]:
    """The properties of each GPU node; a CPU node has no SIMD units."""
    found = []
    for name in machine.names(NODES):
        node = _properties(machine.read(f"{NODES}/{name}/properties"))
        if not node.get("simd_count"):
            continue
        banks = (
            _properties(machine.read(f"{NODES}/{name}/mem_banks/{bank}/properties"))
            for bank in machine.names(f"{NODES}/{name}/mem_banks")
        )
        node["memory"] = sum(
            bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _OWN_HEAPS
        )
        found.append(node)
    return found


def _from_amd_smi(machine: Machine) -> dict[str, Told]:
    """Bus address -> name. Newer versions wrap the list in `gpu_data`."""
    answer = _json(machine, "amd-smi", "static", "--asic", "--bus", "--vram", "--json")
    cards = answer.get("gpu_data", []) if isinstance(answer, dict) else answer
    found = {}
    for card in cards if isinstance(cards, list) else []:
        try:
            size = card.get("vram", {}).get("size", {})
            memory = int(size["value"]) * 1024 * 1024 if isinstance(size, dict) and size else None
            found[bus_address(card["bus"]["bdf"])] = Told(card["asic"]["market_name"], memory)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return found


def _from_rocm_smi(machine: Machine) -> dict[str, Told]:
    answer = _json(
        machine, "rocm-smi", "--showproductname", "--showbus", "--showmeminfo", "vram", "--json"
    )
    found = {}
    for card, facts in answer.items() if isinstance(answer, dict) else ():
        if not card.startswith("card") or not isinstance(facts, dict) or "PCI Bus" not in facts:
            continue
        known: Mapping[str, Any] = {key.lower(): value for key, value in facts.items()}
        memory = str(known.get("vram total memory (b)", ""))
        found[bus_address(known["pci bus"])] = Told(
            name=str(known.get("card series") or known.get("card model") or "AMD GPU"),
            memory=int(memory) if memory.isdigit() else None,
        )
    return found


def _json(machine: Machine, program: str, *words: str) -> Any:
    """What a program printed; programs put warnings around their JSON."""
    path = machine.which(program, f"/opt/rocm/bin/{program}")
    if path is None:
        return []
    out = machine.run([path, *words], DEADLINE_SECONDS).out
    starts = [place for place in (out.find("["), out.find("{")) if place >= 0]
    try:
        return json.JSONDecoder().raw_decode(out[min(starts, default=0) :])[0]
    except ValueError:
        return []


def _properties(text: str | None) -> dict[str, int]:
    pairs = (line.split() for line in (text or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _bus(node: Mapping[str, int]) -> str:
    """`location_id` is bus (8 bits), device (5), function (3)."""
    place = node.get("location_id", 0)
    domain = node.get("domain", 0)
    return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"


def _uuid(node: Mapping[str, int]) -> str:
    """As ROCR_VISIBLE_DEVICES takes it; a small card has no number, and is named by its place."""
    number = node.get("unique_id", 0)
    return f"GPU-{number:016x}" if number else f"amd-{_bus(node)}"


def _architecture(node: Mapping[str, int]) -> str:
    """90402 -> `gfx942`: major, minor in two digits, step in two, written in hex."""
    version = node.get("gfx_target_version", 0)
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
