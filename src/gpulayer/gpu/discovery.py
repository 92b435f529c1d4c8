"""What this machine has, in two steps: at once what costs nothing, then what must be asked.

`discover_fast` reads a few files and starts nothing. Where there is a sign of a GPU it answers
`gpus=None` (not known yet), and `discover_gpus` asks the drivers, each in a child process with a
deadline. Where there is no sign, the first step is already the whole answer. `discover` is all of
it in one call, the interpreters included.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpulayer._version import __version__
from gpulayer.contracts.capabilities import GpuDevice, WorkerCapabilities
from gpulayer.gpu import absence, apple, host, nvidia, rocm, visibility
from gpulayer.gpu.found import Found
from gpulayer.gpu.frameworks import Drivers
from gpulayer.gpu.interpreters import find_interpreters
from gpulayer.gpu.machine import Machine, Runner, run_program


@dataclasses.dataclass(frozen=True, slots=True)
class GpuReport:
    """The answer of the drivers. The fields have the names of `WorkerCapabilities`."""

    gpus: tuple[GpuDevice, ...] = ()
    gpu_note: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None


def discover(
    run: Runner = run_program,
    environ: Mapping[str, str] | None = None,
    *,
    workspace: Path | None = None,
) -> WorkerCapabilities:
    """Both steps and the interpreters; blocks for the drivers, which have a deadline each."""
    machine = Machine(run=run, environ=dict(os.environ if environ is None else environ))
    fast = discover_fast(machine, workspace=workspace)
    whole = fast if fast.gpus is not None else with_gpus(fast, discover_gpus(machine))
    pythons = find_interpreters(machine.environ, run=run, drivers=Drivers.of(whole))
    return dataclasses.replace(whole, interpreters=pythons)


def discover_fast(machine: Machine, *, workspace: Path | None = None) -> WorkerCapabilities:
    """The facts that cost no process: milliseconds, and never a driver."""
    sign = nvidia.signs(machine) or rocm.signs(machine) or apple.signs(machine)
    return WorkerCapabilities(
        hostname=host.hostname(),
        os=host.os_name(machine),
        cpu_arch=host.cpu_arch(),
        cpu_cores=host.cores(machine),
        memory_gb=host.memory_gb(machine),
        disk_gb=host.disk_gb(workspace or Path.home()),
        gpus=None if sign else (),
        gpu_note=None if sign else absence.no_driver(machine),
        labels={"wsl": "true"} if machine.exists("/dev/dxg") else {},
        version=__version__,
    )


def discover_gpus(machine: Machine, owned: Iterable[int] = ()) -> GpuReport:
    """Asks each driver that shows a sign of life. `owned` are the pids of our own tasks; any
    other that computes on a device is foreign. Blocks for the drivers; never raises for them."""
    nv = nvidia.discover(machine, frozenset(owned)) if nvidia.signs(machine) else Found()
    amd = rocm.discover(machine) if rocm.signs(machine) else Found()
    mac = apple.discover(machine) if apple.signs(machine) else Found()
    present = nv.gpus + amd.gpus + mac.gpus
    gpus = visibility.allowed(present, machine.environ)
    notes = nv.notes + amd.notes + mac.notes
    return GpuReport(
        gpus=gpus,
        gpu_note=_note(machine, present, gpus, notes),
        driver_version=nv.driver or amd.driver,
        cuda_version=nv.cuda,
    )


def with_gpus(capabilities: WorkerCapabilities, report: GpuReport) -> WorkerCapabilities:
    """The capabilities with the drivers' answer in place."""
    return dataclasses.replace(
        capabilities, **{f.name: getattr(report, f.name) for f in dataclasses.fields(report)}
    )


def _note(
    machine: Machine,
    present: tuple[GpuDevice, ...],
    gpus: tuple[GpuDevice, ...],
    notes: tuple[str, ...],
) -> str | None:
    if gpus:
        return "; ".join(notes) or None
    if present:
        return absence.hidden(*visibility.limit(present[0].vendor, machine.environ))
    if notes or nvidia.signs(machine):
        return absence.no_answer(notes)
    return absence.no_driver(machine)
