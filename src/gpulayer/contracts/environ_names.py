"""Names of environment variables that a spec may not set.

The launcher sets the names of torchrun (torch.distributed.run, `local_elastic_agent.py`) for each
rank, and the worker chooses the devices that a task sees; a value from a spec would silently change
either, so it is refused. `NCCL_*`, `GLOO_*`, `OMP_NUM_THREADS`, `PYTORCH_*` and loader names such
as `LD_PRELOAD` are the job's own affair: they reach its exec and nothing of ours.
"""

from __future__ import annotations

import re

RESERVED = frozenset(
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME"
    " ROLE_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT PYTHON_EXEC CUDA_VISIBLE_DEVICES"
    " CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES"
    " GPU_DEVICE_ORDINAL".split()
)
RESERVED_PREFIXES = ("GPULAYER_", "TORCHELASTIC_", "TORCH_ELASTIC_", "PET_")

_DEVICES = frozenset(name for name in RESERVED if "DEVICE" in name)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)


def is_reserved(name: str) -> bool:
    return name in RESERVED or name.startswith(RESERVED_PREFIXES)


def name_fault(name: str) -> tuple[str, str] | None:
    """Why a spec may not set the variable and what to do instead; None if it may."""
    if _NAME.fullmatch(name) is None:
        return (
            "is not a variable's name: a letter or _, then letters, digits, _ . -",
            "take the blanks, = and other signs out of the name",
        )
    if name in _DEVICES:
        return (
            "is reserved: the worker sets it to the devices of the job",
            "leave it out and ask for devices with resources.gpu_count",
        )
    if name.startswith("GPULAYER_"):
        return "is reserved for GPUlayer itself", "choose a name without GPULAYER_"
    if is_reserved(name):
        return (
            "is reserved: the launcher of distributed jobs sets it",
            "leave it out; for ranks use a workload of kind distributed",
        )
    return None
