"""The variables that decide which GPUs a process sees.

Two uses: what a task is given (`for_task`), and what the operator left to this worker
(`allowed`). The words are those of NVIDIA's CUDA C++ Programming Guide, *CUDA Environment
Variables*, and of AMD's *GPU isolation techniques*. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpulayer.contracts.capabilities import GpuDevice, Vendor


class Visibility(NamedTuple):
    """Changes to an environment."""

    set: dict[str, str]
    unset: tuple[str, ...]


def for_task(gpus: Sequence[GpuDevice | str], vendor: Vendor | None = None) -> Visibility:
    """What makes a process see exactly these devices, by full UUID; none of them hides all.

    `vendor` is needed only when the devices are given as UUIDs. AMD's variables compose, so only
    one of them is set and the rest is removed. No variable hides the GPU of a Mac.
    """
    uuids = [one if isinstance(one, str) else one.uuid for one in gpus]
    vendors = {one.vendor for one in gpus if isinstance(one, GpuDevice)}
    kind = vendor or (vendors.pop() if vendors else "nvidia")
    names = ",".join(uuids)
    if uuids and kind == "amd":
        return Visibility(
            {"ROCR_VISIBLE_DEVICES": names, "NVIDIA_VISIBLE_DEVICES": ""},
            ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
        )
    shown = names if kind == "nvidia" else ""
    return Visibility(
        {
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": shown,
            "NVIDIA_VISIBLE_DEVICES": shown,
            "HIP_VISIBLE_DEVICES": "",
            "ROCR_VISIBLE_DEVICES": "",
        },
        ("GPU_DEVICE_ORDINAL",),
    )


def allowed(gpus: Sequence[GpuDevice], environ: Mapping[str, str]) -> tuple[GpuDevice, ...]:
    """The devices that the inherited variables leave to us, in our own order.

    As CUDA reads them: an index counts in PCI bus order, a UUID may be shortened as long as it is
    unique, and the first entry that names nothing ends the list. A card with MIG on stands for
    its instances.
    """
    kept = {
        gpu.uuid
        for gpu in gpus
        if (variable := _VARIABLES.get(gpu.vendor)) is None
        or (text := environ.get(variable)) is None
        or gpu.uuid in _named(text, [one for one in gpus if one.vendor == gpu.vendor])
    }
    return tuple(gpu for gpu in gpus if gpu.uuid in kept)


def limit(vendor: Vendor, environ: Mapping[str, str]) -> tuple[str, str]:
    """(variable, value) by which an operator limits devices of this vendor."""
    variable = _VARIABLES.get(vendor, "")
    return variable, environ.get(variable, "")


_VARIABLES: Mapping[str, str] = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "ROCR_VISIBLE_DEVICES"}


def _named(text: str, gpus: Sequence[GpuDevice]) -> set[str]:
    named: set[str] = set()
    for entry in text.split(","):
        found = _entry(entry.strip(), gpus)
        if not found:
            break
        named |= found
    return named


def _entry(entry: str, gpus: Sequence[GpuDevice]) -> set[str]:
    """The devices that one entry means; none where it is not valid."""
    if entry.isdigit():
        return {gpu.uuid for gpu in gpus if gpu.index == int(entry)}
    if not entry.startswith(("GPU-", "MIG-")):
        return set()
    wholes = {gpu.mig_parent or gpu.uuid for gpu in gpus} | {gpu.uuid for gpu in gpus}
    fits = [uuid for uuid in wholes if uuid.startswith(entry)]
    if len(fits) != 1:
        return set()
    return {gpu.uuid for gpu in gpus if fits[0] in (gpu.uuid, gpu.mig_parent)}
