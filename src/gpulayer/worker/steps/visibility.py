"""Which GPUs the process sees: exactly those that its task holds, else none."""

from __future__ import annotations

from gpulayer.contracts.capabilities import Vendor
from gpulayer.gpu import visibility
from gpulayer.worker.steps.plan import TaskPlan


def limit(task: TaskPlan) -> None:
    """A job's own wish cannot widen it; the scheduler counts on that."""
    gpus = task.assignment.gpus
    vendor = _vendor(gpus[0]) if gpus else None
    seen = visibility.for_task(gpus, vendor)
    task.set.update(seen.set)
    task.unset.extend(seen.unset)


def _vendor(uuid: str) -> Vendor:
    if uuid.startswith("apple-"):
        return "apple"
    return "nvidia" if uuid.startswith(("GPU-", "MIG-")) else "amd"
