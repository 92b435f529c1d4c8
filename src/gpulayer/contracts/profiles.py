"""Runtime profiles: shorthand for common requirements. Pure data.

A profile fills in the accelerator and the frameworks of a request. Workers are still matched on
what they report, so a profile never makes an unfit worker eligible. An empty specifier means any
version; `torch.cuda` means a torch that can use a CUDA device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    accelerator: str
    frameworks: Mapping[str, str]
    """Distribution or feature -> PEP 440 specifier."""


PROFILES: dict[str, Profile] = {
    "pytorch-cpu": Profile("cpu", {"torch": ">=2.1"}),
    "pytorch-cuda": Profile("cuda", {"torch": ">=2.1", "torch.cuda": ""}),
    "pytorch-mps": Profile("mps", {"torch": ">=2.1", "torch.mps": ""}),
    "jax-cuda": Profile("cuda", {"jax": ">=0.4", "jaxlib": ">=0.4"}),
    "cupy-cuda": Profile("cuda", {"cupy": ">=12"}),
    "mlx": Profile("mps", {"mlx": ">=0.10"}),
}
