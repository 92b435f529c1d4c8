"""Imports torch and computes one small thing on each device; prints one line of JSON. Run by path
with a job's own interpreter (3.8 up), so it imports nothing of GPUlayer. A driver may hang or end
this process: its parent has a deadline and reads its exit."""

from __future__ import annotations

import json
import os
import site
import sys
from typing import Any

MARK = "gpulayer-torch "
"""Before the JSON, because torch and its plugins may print too."""


def main() -> None:
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    if sys.prefix == sys.base_prefix:
        site.addsitedir(site.getusersitepackages())
    try:
        import torch
    except Exception as error:
        report: dict[str, Any] = {"why": f"{type(error).__name__}: {error}"}
    else:
        report = answer(torch)
    sys.stdout.write(f"\n{MARK}{json.dumps(report)}\n")


def answer(torch: Any) -> dict[str, Any]:
    """What this torch can compute on."""
    cuda, mps, why = 0, False, ""
    try:
        for index in range(torch.cuda.device_count()):
            _compute(torch, f"cuda:{index}")
            cuda += 1
    except Exception as error:
        why = f"cuda:{cuda}: {error}"
    try:
        backend = getattr(torch.backends, "mps", None)
        if backend is not None and backend.is_available():
            _compute(torch, "mps")
            mps = True
    except Exception as error:
        why = f"mps: {error}"
    return {"version": str(torch.__version__), "cuda": cuda, "mps": mps, "why": why}


def _compute(torch: Any, device: str) -> None:
    ones = torch.ones((8, 8), device=device)
    if float((ones @ ones).sum().item()) != 512.0:
        raise RuntimeError("a matrix product came out wrong")


if __name__ == "__main__":
    main()
