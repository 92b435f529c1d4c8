"""The text of nvidia-smi as a `Reading`, where NVML cannot be asked.

`-q -x` (XML) has nearly everything; the compute capability is only in `--query-gpu` (CSV), the
UUIDs of MIG instances only in `-L`, NVLink between cards only in `topo -m`. Forms as in
nvidia-smi(1) and its DTD; a value may be `N/A`, `[N/A]`, `Not Supported`, `ERR!`,
`[Unknown Error]`, `[GPU is lost]`, `[GPU requires reset]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulayer.gpu.machine import Completed
from gpulayer.gpu.nvidia_cards import Card, Process, Reading, Slice

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Ask = Callable[..., Completed]
"""Runs nvidia-smi with these arguments."""


def read(ask: Ask) -> Reading | Completed:
    """What nvidia-smi says; the failed command where it says nothing."""
    from xml.etree import ElementTree  # every worker would pay for it: 25 ms

    query = ask("-q", "-x")
    try:
        start = query.out.index("<nvidia_smi_log")
        log = ElementTree.fromstring(query.out[start:])  # noqa: S314 - the driver's own program
    except (ValueError, ElementTree.ParseError):
        return query
    gpus = log.findall("gpu")
    capabilities = _capabilities(ask("--query-gpu=uuid,compute_cap", "--format=csv,noheader"))
    partitioned = any(_text(gpu, "mig_mode/current_mig") == "Enabled" for gpu in gpus)
    slices = _slice_names(ask("-L").out) if partitioned else {}
    links = _links(ask("topo", "-m").out) if len(gpus) > 1 else {}
    buses = [gpu.get("id", "") for gpu in gpus]
    return Reading(
        driver=_text(log, "driver_version") or None,
        cuda=_number_text(_text(log, "cuda_version")),
        cards=tuple(
            _card(
                index,
                gpu,
                capabilities.get(_text(gpu, "uuid")),
                slices,
                tuple(buses[far] for far in links.get(index, ()) if far < len(buses)),
            )
            for index, gpu in enumerate(gpus)
        ),
    )


def _card(
    index: int,
    gpu: Element,
    capability: str | None,
    names: dict[tuple[str, int], tuple[str, str]],
    links: tuple[str, ...],
) -> Card:
    uuid = _text(gpu, "uuid")
    total = _text(gpu, "fb_memory_usage/total")
    busy = _number_text(_text(gpu, "utilization/gpu_util"))
    partitioned = _text(gpu, "mig_mode/current_mig") == "Enabled"
    return Card(
        index=index,
        uuid=uuid,
        bus=gpu.get("id", ""),
        name=_text(gpu, "product_name"),
        memory=_bytes(total),
        used=_bytes(_text(gpu, "fb_memory_usage/used")),
        shared=_unknown(total),
        utilization=None if busy is None else float(busy) / 100,
        compute_capability=capability,
        partitioned=partitioned,
        slices=tuple(_slices(gpu, uuid, names)) if partitioned else (),
        processes=_processes(gpu),
        links=() if partitioned else links,
        faults=_faults(gpu),
    )


def _slices(gpu: Element, uuid: str, names: dict[tuple[str, int], tuple[str, str]]) -> list[Slice]:
    found = []
    for part in gpu.findall("mig_devices/mig_device"):
        place = int(_text(part, "index") or 0)
        own, profile = names.get((uuid, place), ("", ""))
        if own:
            found.append(
                Slice(
                    uuid=own,
                    profile=profile,
                    instance=int(_text(part, "gpu_instance_id") or 0),
                    memory=_bytes(_text(part, "fb_memory_usage/total")),
                    used=_bytes(_text(part, "fb_memory_usage/used")),
                )
            )
    return found


def _processes(gpu: Element) -> tuple[Process, ...]:
    found = {}
    for info in gpu.findall("processes/process_info"):
        pid = int(_text(info, "pid") or 0)
        if "C" in _text(info, "type"):
            instance = _number_text(_text(info, "gpu_instance_id"))
            found[pid] = Process(
                pid=pid,
                memory=_bytes(_text(info, "used_memory")),
                instance=None if instance is None else int(instance),
            )
    return tuple(found.values())


def _faults(gpu: Element) -> tuple[str, ...]:
    faults = set()
    for path in ("fb_memory_usage/total", "utilization/gpu_util", "gpu_recovery_action"):
        value = _text(gpu, path)
        if "requires reset" in value or "Reset" in value:
            faults.add("reset")
        elif "Reboot" in value:
            faults.add("reboot")
        elif any(word in value for word in ("ERR!", "Unknown Error", "lost")):
            faults.add("lost")
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is not None and any(
        (_number_text(one.text or "") or "0") != "0"
        for one in (
            *_starting(volatile, ("dram_uncorr", "sram_uncorr")),
            *volatile.findall("double_bit/total"),
        )
    ):
        faults.add("ecc")
    if _text(gpu, "remapped_rows/remapped_row_failure") == "Yes":
        faults.add("remap-failed")
    elif _text(gpu, "remapped_rows/remapped_row_pending") == "Yes":
        faults.add("remap-pending")
    if _text(gpu, "retired_pages/pending_retirement") == "Yes":
        faults.add("retire-pending")
    return tuple(sorted(faults))


def _capabilities(query: Completed) -> dict[str, str]:
    """UUID -> compute capability; older drivers do not know the column."""
    rows = (line.split(",") for line in query.out.splitlines() if query.ok)
    return {
        row[0].strip(): row[1].strip()
        for row in rows
        if len(row) == 2 and re.fullmatch(r"\d+\.\d+", row[1].strip())
    }


def _slice_names(listing: str) -> dict[tuple[str, int], tuple[str, str]]:
    """(card's UUID, place) -> (MIG UUID, profile), from `nvidia-smi -L`."""
    found, parent = {}, ""
    for line in listing.splitlines():
        if card := re.match(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)", line):
            parent = card.group(1)
        elif part := re.match(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)", line):
            found[parent, int(part.group(2))] = (part.group(3), part.group(1))
    return found


def _links(matrix: str) -> dict[int, list[int]]:
    """card -> cards that it reaches over NVLink, from `nvidia-smi topo -m`."""
    rows = [re.sub(r"\x1b\[[0-9;]*m", "", line).split("\t") for line in matrix.splitlines()]
    if not rows:
        return {}
    columns = [re.fullmatch(r"GPU(\d+)", cell.strip()) for cell in rows[0]]
    found: dict[int, list[int]] = {}
    for row in rows[1:]:
        name = re.fullmatch(r"GPU(\d+)", row[0].strip())
        if name is None:
            continue
        found[int(name.group(1))] = [
            int(column.group(1))
            for column, cell in zip(columns, row, strict=False)
            if column is not None and re.fullmatch(r"NV\d+", cell.strip())
        ]
    return found


def _starting(parent: Element, prefixes: tuple[str, ...]) -> list[Element]:
    return [child for child in parent if child.tag.startswith(prefixes)]


def _text(parent: Element, path: str) -> str:
    return (parent.findtext(path) or "").strip()


def _unknown(value: str) -> bool:
    return value.strip("[]") in ("", "N/A", "Not Supported")


def _number_text(value: str) -> str | None:
    match = re.match(r"[\d.]+", value)
    return match.group(0) if match else None


def _bytes(value: str) -> int | None:
    match = re.fullmatch(r"(\d+) MiB", value)
    return int(match.group(1)) * 1024 * 1024 if match else None
