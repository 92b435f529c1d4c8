"""NVIDIA devices of this machine: NVML in a child first, then nvidia-smi, then why there are none.

A driver that is wedged hangs whoever asks. So the child has a deadline, is killed at it, and
nothing else is asked: nvidia-smi would hang in the same place.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from gpulayer.gpu import host, nvidia_smi
from gpulayer.gpu.found import Found
from gpulayer.gpu.machine import Completed, Machine
from gpulayer.gpu.nvidia_cards import Reading, bus_address, devices

DEADLINE_SECONDS = 10.0
"""For each question to the driver."""

WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
CHILD = Path(__file__).with_name("nvml_child.py")

_NOT_LOADED, _NO_LIBRARY, _MISMATCH = 9, 12, 18


def signs(machine: Machine) -> bool:
    """Whether there is anything to ask: a device node, a loaded driver, or nvidia-smi."""
    return (
        machine.exists("/dev/nvidiactl")
        or machine.exists("/proc/driver/nvidia/version")
        or smi_path(machine) is not None
    )


def smi_path(machine: Machine) -> str | None:
    return machine.which("nvidia-smi", WSL_SMI)


def discover(machine: Machine, owned: frozenset[int]) -> Found:
    """Asks the driver; never raises for what it says. Stops asking at the first question that
    it does not answer in time."""
    reading = _from_nvml(machine)
    if not isinstance(reading, Reading):
        return Found(notes=(reading,))
    notes = [*(f"{silent}{_xid(machine)}" for silent in reading.silent)]
    notes += [
        f"MIG is on for GPU {card.index}, but it has no instances: nvidia-smi mig -cgi"
        for card in reading.cards
        if card.partitioned and not card.slices
    ]
    pids_mean_something = not (machine.exists("/dev/dxg") or host.own_pid_namespace(machine))
    return Found(
        gpus=devices(
            reading.cards,
            owned=owned if pids_mean_something else None,
            host_memory_gb=host.memory_gb(machine),
            numa_node=lambda bus: _numa_node(machine, bus),
        ),
        notes=tuple(notes),
        driver=reading.driver,
        cuda=reading.cuda,
    )


def cards_on_the_bus(machine: Machine) -> int:
    """NVIDIA display devices that the kernel sees, driver or not (sysfs, PCI vendor 0x10de)."""
    folder = "/sys/bus/pci/devices"
    return sum(
        (machine.read(f"{folder}/{one}/vendor") or "").strip() == "0x10de"
        and (machine.read(f"{folder}/{one}/class") or "").startswith("0x03")
        for one in machine.names(folder)
    )


def _from_nvml(machine: Machine) -> Reading | str:
    """A reading, else a sentence about why not."""
    asked = machine.run([machine.python, "-I", str(CHILD)], DEADLINE_SECONDS)
    if asked.problem == "timeout":
        return _silent_driver(machine)
    try:
        answer = json.loads(asked.out)
    except ValueError:
        answer = {"error": _NO_LIBRARY, "text": asked.err.strip() or "the NVML probe failed"}
    if "error" not in answer:
        return Reading.from_json(answer)
    if answer["error"] == _MISMATCH:
        return _MISMATCHED
    return _from_smi(machine, str(answer["text"]))


def _from_smi(machine: Machine, nvml_said: str) -> Reading | str:
    program = smi_path(machine)
    if program is None:
        return f"the NVIDIA driver cannot be asked: {nvml_said}, and nvidia-smi is not installed"
    reading = nvidia_smi.read(lambda *words: machine.run([program, *words], DEADLINE_SECONDS))
    if isinstance(reading, Reading):
        return reading
    return _silent_driver(machine) if reading.problem == "timeout" else _complaint(reading)


def _complaint(failed: Completed) -> str:
    said = (failed.out.strip() or failed.err.strip() or "nothing").splitlines()[0]
    if "version mismatch" in said:
        return _MISMATCHED
    if "couldn't communicate" in said or "No devices were found" in said:
        said = said.split(". ")[0].rstrip(".")
    return f"nvidia-smi says: {said}"


_MISMATCHED = "the NVIDIA driver was updated while the old one is still loaded; a reboot mends it"


def _silent_driver(machine: Machine) -> str:
    seen = cards_on_the_bus(machine)
    where = f"; {seen} of its cards {'is' if seen == 1 else 'are'} in this machine" if seen else ""
    return f"the NVIDIA driver did not answer within {DEADLINE_SECONDS:.0f} s{where}"


def _numa_node(machine: Machine, bus: str) -> int | None:
    text = (machine.read(f"/sys/bus/pci/devices/{bus}/numa_node") or "").strip()
    return int(text) if text.isdigit() else None


def _xid(machine: Machine) -> str:
    """The last fatal Xid of the kernel log, as an explanation only: the log does not say whether
    the card was reset since."""
    found = re.findall(r"NVRM: Xid \(PCI:([0-9a-f:]+)\): (\d+)", machine.kernel_log())
    if not found:
        return ""
    bus, number = found[-1]
    return f" (Xid {number} at {bus_address(f'{bus}.0')})"
