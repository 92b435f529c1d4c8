"""Whether torch can really use the GPUs: a small computation in a child process, on demand.

The metadata says what should work; only a computation says what does. Slow (torch takes a second
or more to import, the first touch of many GPUs longer), so it is asked for rarely.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gpulayer.gpu.machine import Runner, run_program
from gpulayer.gpu.torch_child import MARK

DEADLINE_SECONDS = 60.0
CHILD = Path(__file__).with_name("torch_child.py")


@dataclass(frozen=True, slots=True)
class TorchReport:
    """What torch could do."""

    version: str | None = None
    cuda_devices: int = 0
    mps: bool = False
    why: str = ""
    """Why something did not work; empty when all that exists did."""


def probe_torch(python: str, *, run: Runner = run_program) -> TorchReport:
    """Computes with the torch of that interpreter; at most a minute, and never raises for it."""
    ended = run([python, "-I", str(CHILD)], DEADLINE_SECONDS)
    if ended.problem == "timeout":
        return TorchReport(why=f"torch did not answer within {DEADLINE_SECONDS:.0f} s")
    if ended.code is None:
        return TorchReport(why=f"{python} cannot be started: {ended.err}")
    if ended.code < 0:
        return TorchReport(why=f"torch was ended by signal {-ended.code}")
    _, mark, line = ended.out.rpartition(MARK)
    if not mark:
        return TorchReport(why=(ended.err.strip() or "torch said nothing").splitlines()[-1])
    said = json.loads(line)
    return TorchReport(
        said.get("version"), said.get("cuda", 0), said.get("mps", False), said.get("why", "")
    )
