"""What a worker reports about its machine.

Every fact has three values: yes, no, or not known yet (`None`). 'Not known' makes a job wait; it
never makes it fail. Sizes are in GB of 10**9 bytes. Parsing is lenient, so that an older plane can
read a newer worker's report: unknown keys are ignored, missing ones are 'not known'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gpulayer.contracts.data_sets import declared
from gpulayer.contracts.fitting import fitted_to
from gpulayer.contracts.secret_names import ANY, offered

Vendor = Literal["nvidia", "apple", "amd"]
MemoryKind = Literal["dedicated", "unified"]


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """One schedulable device: a whole GPU, or one MIG instance."""

    uuid: str
    """Full vendor UUID (`GPU-...`, `MIG-...`); for Apple `apple-gpu-0`. Never an index."""
    index: int
    """PCI bus order, for people only."""
    vendor: Vendor
    name: str
    """As the driver says it: `NVIDIA A100-SXM4-80GB`."""
    model: str
    """Normalised: `a100`, `h100`, `rtx4090`, `gb10`, `m2`, `mi300x`; see `gpu.support`."""
    memory_gb: float | None
    memory_kind: MemoryKind
    compute_capability: str | None = None
    """CUDA's, such as `8.0`."""
    healthy: bool | None = True
    unhealthy_why: str | None = None
    numa_node: int | None = None
    link_group: int | None = None
    """Devices with the same number are joined by NVLink (or share one NUMA node without it)."""
    foreign_pids: tuple[int, ...] = ()
    """Processes on the device that no task of ours owns."""
    foreign_memory_gb: float = 0.0
    used_memory_gb: float | None = None
    utilization: float | None = None
    """0..1, a snapshot for people; the scheduler never looks."""
    mig_parent: str | None = None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that a job may use on this worker."""

    path: str
    version: str | None
    frameworks: Mapping[str, str] | None = None
    """Distribution name -> version; `torch.cuda`, `torch.mps` -> version when usable.
    None: not probed yet."""


@dataclass(frozen=True, slots=True)
class WorkerCapabilities:
    hostname: str
    os: str
    """`linux`, `macos`, `windows`."""
    cpu_arch: str
    """`x86_64`, `arm64`."""
    cpu_cores: float
    memory_gb: float | None = None
    disk_gb: float | None = None
    """Free where workspaces are made."""
    gpus: tuple[GpuDevice, ...] | None = ()
    """None: discovery has not finished."""
    gpu_note: str | None = None
    """Why there is no GPU, or what is wrong with the driver, for people."""
    driver_version: str | None = None
    cuda_version: str | None = None
    interpreters: tuple[Interpreter, ...] = ()
    """The first one is the worker's configured interpreter."""
    labels: Mapping[str, str] = field(default_factory=dict)
    provider: str | None = None
    region: str | None = None
    version: str = ""
    """Of GPUlayer on that machine."""
    data: tuple[str, ...] = ()
    """Names of the data sets that it declares."""
    secrets: tuple[str, ...] | None = None
    """Names of the secrets that its owner lets jobs have, and that have a value now; `*`: every
    variable. None: its list cannot be read."""
    containers: str | None = None
    """What runs images there, with its version: `podman 4.3.1`. Empty: nothing does."""
    containers_note: str = ""
    """Why nothing does, for people."""
    errands: bool = False
    """Whether it does what a plane asks besides tasks (`messages.Errand`)."""
    takes_ahead: bool = False
    """Whether it keeps a task that is sent ahead of its room until it may begin."""
    takes_runs: bool = False
    """Whether one task of it runs many elements of an array, one after another."""
    address: str | None = None
    """Its own IP address on the way to the plane. None: the plane's own machine."""
    streams: bool = False
    """Whether its running tasks can be entered (`exec`, `shell`, `forward`)."""
    stacks: bool = False
    """Whether it tells the stacks of their processes (`stacks`)."""
    enters_images: bool = False
    """Whether commands come into the containers of those that run in an image, too."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorkerCapabilities:
        """Raises UsageError where a fact is not what it should be."""
        known = _known(cls, data)
        gpus = data.get("gpus", ())
        known["gpus"] = None if gpus is None else tuple(_gpu(g) for g in gpus)
        known["interpreters"] = tuple(
            Interpreter(**_known(Interpreter, i)) for i in data.get("interpreters", ())
        )
        known["data"] = declared(data.get("data", ()))
        secrets = data.get("secrets", (ANY,))  # a worker that is older than the list
        known["secrets"] = None if secrets is None else offered(secrets)
        return cls(**known)


def _gpu(data: Mapping[str, Any]) -> GpuDevice:
    known = _known(GpuDevice, data)
    known["foreign_pids"] = tuple(known.get("foreign_pids", ()))
    return GpuDevice(**known)


def _known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in dataclasses.fields(cls)}
    return {key: value for key, value in fitted_to(cls, data).items() if key in names}
