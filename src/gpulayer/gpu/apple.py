"""The GPU of an Apple Silicon Mac: one device that shares the host's memory.

`sysctl` names the chip at once; `system_profiler SPDisplaysDataType -json` takes up to a second
and says whether it has a Metal GPU at all (a virtual machine has none that can compute). A Mac
with an Intel chip has no device that any supported framework uses.
"""

from __future__ import annotations

import json

from gpulayer.contracts.capabilities import GpuDevice
from gpulayer.gpu import host
from gpulayer.gpu.found import Found
from gpulayer.gpu.machine import Machine
from gpulayer.gpu.support import normalise_model

DEADLINE_SECONDS = 10.0


def signs(machine: Machine) -> bool:
    return machine.platform == "darwin"


def discover(machine: Machine) -> Found:
    """The one device, or why a Mac has none."""
    facts = _sysctl(machine)
    chip = facts.get("machdep.cpu.brand_string", "")
    if facts.get("hw.optional.arm64") != "1":
        return Found(notes=(f"this Mac has no Apple GPU ({chip or 'an Intel processor'})",))
    name, cores = _display(machine)
    if name is not None and not name.startswith("Apple M"):
        return Found(notes=(f"this Mac's display device cannot compute: {name}",))
    memory = facts.get("hw.memsize", "")
    device = GpuDevice(
        uuid="apple-gpu-0",
        index=0,
        vendor="apple",
        name=f"{name or chip}{f' ({cores}-core GPU)' if cores else ''}",
        model=normalise_model(name or chip),
        memory_gb=round(int(memory) / host.GB, 3) if memory.isdigit() else None,
        memory_kind="unified",
        link_group=0,
    )
    return Found((device,))


def _sysctl(machine: Machine) -> dict[str, str]:
    """The values that exist; sysctl fails for the others and still prints these."""
    names = ("hw.memsize", "machdep.cpu.brand_string", "hw.optional.arm64")
    answer = machine.run(["/usr/sbin/sysctl", *names], DEADLINE_SECONDS)
    lines = (line.partition(": ") for line in answer.out.splitlines())
    return {key: value.strip() for key, _, value in lines}


def _display(machine: Machine) -> tuple[str | None, str]:
    """(model, number of GPU cores) of the built-in display device; None where nobody says."""
    argv = ["/usr/sbin/system_profiler", "SPDisplaysDataType", "-json"]
    answer = machine.run(argv, DEADLINE_SECONDS)
    try:
        listed = json.loads(answer.out)["SPDisplaysDataType"]
        one = next((d for d in listed if d.get("sppci_bus") == "spdisplays_builtin"), listed[0])
        return str(one["sppci_model"]), str(one.get("sppci_cores", ""))
    except (ValueError, KeyError, IndexError, TypeError):
        return None, ""
