"""What the question to one vendor's driver gave: the one shape of nvidia, rocm and apple."""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer.contracts.capabilities import GpuDevice


@dataclass(frozen=True, slots=True)
class Found:
    """The devices, and what people should know about their driver."""

    gpus: tuple[GpuDevice, ...] = ()
    notes: tuple[str, ...] = ()
    driver: str | None = None
    cuda: str | None = None
