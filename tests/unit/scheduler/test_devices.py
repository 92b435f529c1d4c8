"""Devices against what a job asks of them: one reason, the first that leaves too few."""

from __future__ import annotations

import pytest

from gpulayer.contracts.decision import Fit, Shape, WorkerView
from tests.support.builders import a_gpu, a_shape, a_worker, gpus_of, holding, judged, reasons

MIXED = (*gpus_of("lab-1", 1, "a100"), *gpus_of("lab-1b", 1, "rtx4090"))
SICK = (
    a_gpu("GPU-0", healthy=False, unhealthy_why="Xid 79: it fell off the bus"),
    a_gpu("GPU-1", index=1),
)
SLICES = tuple(
    a_gpu(f"MIG-{i}", model="a100", memory_gb=10.0, mig_parent="GPU-0", index=0) for i in range(4)
)
HELD = (
    a_gpu("GPU-0", foreign_pids=(812, 9001), foreign_memory_gb=11.04),
    a_gpu("GPU-1", index=1),
)

CASES: list[tuple[Shape, WorkerView, Fit, str, str]] = [
    (a_shape(1), a_worker(gpus=0), Fit.NEVER, "gpu_count", "needs 1 GPU, has none"),
    (a_shape(1), a_worker(gpus=0, gpu_note="the driver does not answer"), Fit.NEVER, "gpu_count",
     "needs 1 GPU, has none (the driver does not answer)"),
    (a_shape(1), a_worker(gpus=None), Fit.UNKNOWN, "gpu_count",
     "needs 1 GPU, has not finished looking for GPUs"),
    (a_shape(4, accelerator="cuda"), a_worker(gpus=2), Fit.NEVER, "gpu_count",
     "needs 4 cuda GPUs, has 2"),
    (a_shape(1, accelerator="cuda"), a_worker(gpus=1, model="m2"), Fit.NEVER, "gpu_count",
     "needs 1 cuda GPU, has none (only apple)"),
    (a_shape(2, accelerator="mps"), a_worker(gpus=1, model="m2"), Fit.NEVER, "gpu_count",
     "needs 2 mps GPUs, has 1 at most: one device per machine"),
    (a_shape(1), a_worker(gpus=4, model="mi300x"), Fit.NEVER, "gpu_count",
     "needs 1 GPU, has none (only amd)"),
    (a_shape(1, accelerator="rocm"), a_worker(gpus=4, model="mi300x"), Fit.NEVER, "accelerator",
     "needs 1 rocm GPU, has no support for it: rocm is discovered, but not scheduled yet"),
    (a_shape(1, gpu_models=("h100",)), a_worker(gpus=2), Fit.NEVER, "gpu_model",
     "needs h100, has a100"),
    (a_shape(2, gpu_models=("a100", "h100")), a_worker(gpus=MIXED), Fit.NEVER, "gpu_model",
     "needs 2 x a100 or h100, has 1 among a100, rtx4090"),
    (a_shape(1, gpu_memory_gb=40.0), a_worker(gpus=2, model="rtx4090"), Fit.NEVER, "gpu_memory",
     "needs 40 GB per GPU, has 24 GB"),
    (a_shape(2, gpu_memory_gb=40.0), a_worker(gpus=MIXED), Fit.NEVER, "gpu_memory",
     "needs 40 GB per GPU, has 24 GB"),
    (a_shape(1, gpu_memory_gb=8.0), a_worker(gpus=1, model="m2"), Fit.NEVER, "gpu_memory_kind",
     "needs dedicated GPU memory, has unified"),
    (a_shape(1, gpu_memory_kind="unified"), a_worker(gpus=1), Fit.NEVER, "gpu_memory_kind",
     "needs unified GPU memory, has dedicated"),
    (a_shape(1, gpu_memory_gb=8.0), a_worker(gpus=[a_gpu(memory_gb=None)]), Fit.UNKNOWN,
     "gpu_memory", "needs 8 GB per GPU, has memory that is not known yet"),
    (a_shape(1, min_compute_capability="9.0"), a_worker(gpus=1), Fit.NEVER, "gpu_capability",
     "needs compute capability 9.0, has 8.0"),
    (a_shape(1, min_compute_capability="8.0"), a_worker(gpus=1, model="m2"), Fit.NEVER,
     "gpu_capability", "needs compute capability 8.0, has none: not a CUDA device"),
    (a_shape(1, min_compute_capability="8.0"), a_worker(gpus=[a_gpu(compute_capability=None)]),
     Fit.UNKNOWN, "gpu_capability",
     "needs compute capability 8.0, has one that is not known yet"),
    (a_shape(2), a_worker(gpus=SICK), Fit.NEVER, "gpu_health",
     "needs 2 healthy GPUs, has 1 of 2 (Xid 79: it fell off the bus)"),
    (a_shape(1), a_worker(gpus=[a_gpu(healthy=None)]), Fit.UNKNOWN, "gpu_health",
     "needs 1 healthy GPU, has 0 of 1 looked at"),
    (a_shape(2), a_worker(gpus=SLICES), Fit.NEVER, "gpu_whole",
     "needs 2 whole GPUs, has 0 besides 4 MIG instances"),
    (a_shape(2, visible_gpus=("GPU-lab-1-0",)), a_worker(gpus=4), Fit.NEVER, "gpu_visible",
     "needs 2 GPUs that the terminal's CUDA_VISIBLE_DEVICES shows, has 1 of 4"),
    (a_shape(1, visible_gpus=()), a_worker(gpus=4), Fit.NEVER, "gpu_visible",
     "needs 1 GPU that the terminal's CUDA_VISIBLE_DEVICES shows, has 0 of 4"),
    (a_shape(2), a_worker(gpus=HELD), Fit.BUSY, "gpu_foreign",
     "needs 2 GPUs that no other program uses, has 1 of 2: processes 812, 9001 use 11 GB"),
    (a_shape(2), a_worker(gpus=2, allocations=[holding(gpus=["GPU-lab-1-1"])]), Fit.BUSY,
     "gpu_free", "needs 2 free GPUs, has 1 of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "worker", "fit", "name", "sentence"), CASES)
def test_the_first_thing_that_leaves_too_few_devices_is_the_reason(
    shape: Shape, worker: WorkerView, fit: Fit, name: str, sentence: str
) -> None:
    (verdict,) = judged(shape, worker)
    assert verdict.fit is fit
    assert reasons(shape, worker) == {name: sentence}


FITS: list[tuple[Shape, WorkerView]] = [
    (a_shape(1), a_worker(gpus=1, model="m2")),
    (a_shape(1, accelerator="mps"), a_worker(gpus=1, model="m2")),
    (a_shape(1, gpu_models=("rtx4090",), gpu_memory_gb=24.0), a_worker(gpus=MIXED)),
    (a_shape(1, gpu_memory_gb=16.0, gpu_memory_kind="unified"), a_worker(gpus=1, model="m2")),
    (a_shape(1, min_compute_capability="8.0"), a_worker(gpus=MIXED)),
    (a_shape(1), a_worker(gpus=SICK)),
    (a_shape(1), a_worker(gpus=HELD)),
    (a_shape(1, gpu_memory_gb=10.0), a_worker(gpus=SLICES)),
    (a_shape(2, visible_gpus=("3", "GPU-lab-1-0")), a_worker(gpus=4)),
    (a_shape(1, visible_gpus=("9",)), a_worker(gpus=4, target="remote")),
]


@pytest.mark.parametrize(("shape", "worker"), FITS)
def test_enough_devices_that_pass_everything_fit(shape: Shape, worker: WorkerView) -> None:
    assert judged(shape, worker)[0].fit is Fit.YES


def test_two_needs_that_no_single_device_meets_are_never_met() -> None:
    large_and_old = a_gpu("GPU-0", memory_gb=80.0, compute_capability="7.0")
    small_and_new = a_gpu("GPU-1", memory_gb=16.0, compute_capability="9.0", index=1)
    shape = a_shape(1, gpu_memory_gb=40.0, min_compute_capability="8.0")
    assert reasons(shape, a_worker(gpus=[large_and_old, small_and_new])) == {
        "gpu_capability": "needs compute capability 8.0, has 7.0"
    }


def test_a_device_that_is_not_known_well_does_not_hide_one_that_is() -> None:
    shape = a_shape(1, gpu_memory_gb=40.0)
    devices = [a_gpu("GPU-0", memory_gb=None), a_gpu("GPU-1", index=1)]
    assert judged(shape, a_worker(gpus=devices))[0].fit is Fit.YES


def test_what_nobody_knows_yet_may_still_be_busy_later() -> None:
    held = [holding(gpus=["GPU-0"])]
    worker = a_worker(gpus=[a_gpu("GPU-0", memory_gb=None)], allocations=held)
    told = reasons(a_shape(1, gpu_memory_gb=40.0), worker)
    assert list(told) == ["gpu_memory", "gpu_free"]


def test_a_free_device_that_is_not_known_does_not_stand_in_for_a_known_one_that_is_held() -> None:
    devices = [a_gpu("GPU-0"), a_gpu("GPU-1", index=1, healthy=None)]
    worker = a_worker(gpus=devices, allocations=[holding(gpus=["GPU-0"])])
    assert reasons(a_shape(1), worker) == {
        "gpu_free": "needs 1 free GPU, has 1 of 2, 1 of them not known well enough"
    }
