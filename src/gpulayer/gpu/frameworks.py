"""Which frameworks an interpreter has, read from the metadata of its packages; nothing is imported.

A distribution's folder carries name and version (PEP 376, PEP 440). Whether torch can use the GPU
follows from how its wheel was built (`torch/version.py`) and from the driver; `gpu.probe` can
confirm it by a real computation.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpulayer.contracts.capabilities import WorkerCapabilities

FRAMEWORKS = frozenset(
    "accelerate bitsandbytes cupy dask datasets deepspeed diffusers flash-attn flax jax "
    "jaxlib keras lightgbm lightning mlx mlx-lm mpi4py numba numpy onnx onnxruntime pandas "
    "peft polars pyarrow pytorch-lightning ray scikit-learn scipy sentence-transformers "
    "tensorflow tokenizers torch torchaudio torchvision transformers triton trl vllm xformers "
    "xgboost".split()
)
"""The distributions that are reported; a worker's whole package list would be too long."""

_OTHER_NAMES = {
    "tensorflow-cpu": "tensorflow",
    "tensorflow-macos": "tensorflow",
    "onnxruntime-gpu": "onnxruntime",
}


@dataclass(frozen=True, slots=True)
class Drivers:
    """What the machine's drivers can run."""

    cuda: str | None = None
    """The newest CUDA that the driver knows, if there is a device."""
    mps: bool = False

    @classmethod
    def of(cls, capabilities: WorkerCapabilities) -> Drivers:
        vendors = {gpu.vendor for gpu in capabilities.gpus or ()}
        cuda = capabilities.cuda_version if "nvidia" in vendors else None
        return cls(cuda, "apple" in vendors)


def frameworks(folders: Iterable[Path], drivers: Drivers) -> dict[str, str]:
    """Framework -> version, in alphabetical order; `torch.cuda` and `torch.mps` carry torch's
    version where they should work here. An earlier folder hides a later one."""
    found: dict[str, str] = {}
    torch: Path | None = None
    for folder in folders:
        for name, version in distributions(folder):
            name = "cupy" if re.fullmatch(r"cupy-(cuda|rocm).*", name) else name
            name = _OTHER_NAMES.get(name, name)
            if name in FRAMEWORKS and name not in found:
                found[name] = version
                torch = folder / "torch" if name == "torch" else torch
    if torch is not None:
        built_for = _built_for_cuda(torch)
        if built_for is not None and drivers.cuda is not None and _runs(built_for, drivers.cuda):
            found["torch.cuda"] = found["torch"]
        if drivers.mps:
            found["torch.mps"] = found["torch"]
    return dict(sorted(found.items()))


def distributions(folder: Path) -> list[tuple[str, str]]:
    """Normalised name and version of each that is recorded in a folder of packages."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = []
    for entry in names:
        match = _ENTRY.fullmatch(entry)
        if match is None or (
            match.group(3) == "dist" and not (folder / entry / "METADATA").exists()
        ):
            continue
        found.append((re.sub(r"[-_.]+", "-", match.group(1)).lower(), match.group(2)))
    return found


_ENTRY = re.compile(r"([A-Za-z0-9_.]+)-([0-9][^-]*)(?:-py3\.\d+)?\.(dist|egg)-info")
"""A folder without METADATA is what an interrupted removal leaves."""


def _built_for_cuda(torch: Path) -> str | None:
    """The CUDA version that a torch wheel was built for; None for CPU and ROCm builds."""
    try:
        text = (torch / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return match.group(1) if match else None


def _runs(built_for: str, driver: str) -> bool:
    """A driver runs every toolkit of its own major version and of older ones (NVIDIA's *CUDA
    Compatibility*, minor version compatibility)."""
    return int(driver.split(".")[0]) >= int(built_for.split(".")[0])
