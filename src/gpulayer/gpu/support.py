"""Which accelerators jobs may be given, as a table, and how device names are made comparable.

Pure. Discovery asks it for model names, the scheduler asks it what counts as a device. An
accelerator that is discovered but not scheduled is shown to people and never given to a job.
Names are those that the drivers say (NVML `nvmlDeviceGetName`, `amd-smi`, `system_profiler`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Support:
    """One row of the matrix."""

    accelerator: str
    vendors: tuple[str, ...]
    scheduled: bool
    max_devices: int | None = None
    """Per job and machine; None: as many as there are."""
    note: str = ""


MATRIX: dict[str, Support] = {
    row.accelerator: row
    for row in (
        Support("cuda", ("nvidia",), scheduled=True),
        Support("mps", ("apple",), scheduled=True, max_devices=1, note="one device per machine"),
        Support("gpu", ("nvidia", "apple"), scheduled=True, note="cuda or mps, never rocm"),
        Support(
            "rocm", ("amd",), scheduled=False, note="rocm is discovered, but not scheduled yet"
        ),
    )
}
"""By accelerator; `cpu` has no row, because it needs no device."""


def accelerator_of(vendor: str) -> str | None:
    """The accelerator that a vendor's devices are: `cuda`, `mps`, `rocm`; None if unknown."""
    return _ACCELERATOR_OF.get(vendor)


def is_scheduled(vendor: str) -> bool:
    """Whether a job may ever be given a device of this vendor."""
    accelerator = accelerator_of(vendor)
    return accelerator is not None and MATRIX[accelerator].scheduled


def normalise_model(name: str) -> str:
    """The short form of a device's name: `NVIDIA A100-SXM4-80GB` -> `a100`.

    Bus, memory size, brand and edition fall away; what makes it another chip stays: `ti`, `super`,
    `laptop`, Apple's `pro` and `max`. A MIG instance keeps its profile (`h100-1g.10gb`), so that it
    is never taken for the whole device. Applying it twice changes nothing.
    """
    text = name.lower()
    profile = _MIG_PROFILE.search(text)
    if profile:
        text = text[: profile.start()]
    words = [w for w in _WORD.findall(text) if w not in _NOISE and not _SIZE.fullmatch(w)]
    laptop = "laptop" in words
    model = "".join(w for w in words if w not in ("laptop", "mig"))
    model = re.sub(r"^rtx(?=a\d)", "", model)
    parts = [model, "laptop" if laptop else "", profile.group(1) if profile else ""]
    return "-".join(part for part in parts if part)


def is_model(have: str, wanted: str) -> bool:
    """Whether two names mean one model; hyphens and dots do not count, as people leave them out."""
    return _folded(normalise_model(have)) == _folded(normalise_model(wanted))


def capability(text: str) -> tuple[int, int] | None:
    """CUDA's compute capability as numbers: `8.6` -> (8, 6), `9` -> (9, 0); None if neither."""
    match = _CAPABILITY.fullmatch(text.strip())
    return (int(match.group(1)), int(match.group(2) or 0)) if match else None


def reaches_capability(have: str | None, need: str) -> bool | None:
    """Whether a device's compute capability is at least `need`. None: not known."""
    known = capability(have) if have is not None else None
    wanted = capability(need)
    return None if known is None or wanted is None else known >= wanted


def _folded(model: str) -> str:
    return model.replace("-", "").replace(".", "")


_ACCELERATOR_OF = {"nvidia": "cuda", "apple": "mps", "amd": "rocm"}
_WORD = re.compile(r"[a-z0-9]+")
_MIG_PROFILE = re.compile(r"(?:\bmig[ -]+|-)(\d+g\.\d+gb\S*)")
_SIZE = re.compile(r"\d+gb|sxm\d*|hbm\d*e?|\d+gib")
_CAPABILITY = re.compile(r"(\d+)(?:\.(\d+))?")
_NOISE = frozenset(
    "nvidia amd apple geforce tesla quadro grid radeon instinct jetson agx graphics generation gpu"
    " oam pcie nvl edition server workstation blackwell nvgpu".split()
)
