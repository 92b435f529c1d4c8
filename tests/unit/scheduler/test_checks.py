"""Every reason, with its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts.capabilities import Interpreter
from gpulayer.contracts.decision import Fit, Shape, WorkerView
from tests.support.builders import PYTHON, a_shape, a_worker, holding, judged, reasons

MINE = Interpreter("/home/ann/.venv/bin/python", "3.13.0", {"torch": "2.2.0"})

NEVER: list[tuple[Shape, WorkerView, str, str]] = [
    (a_shape(targets=("local",)), a_worker(target="remote"), "target",
     "needs target local, has remote"),
    (a_shape(worker_ids=("lab-9",)), a_worker(), "worker", "needs worker lab-9, has lab-1"),
    (a_shape(labels=(("pool", "a"),)), a_worker(), "label",
     "needs label pool=a, has no such label"),
    (a_shape(labels=(("pool", "a"),)), a_worker(labels={"pool": "b"}), "label",
     "needs label pool=a, has pool=b"),
    (a_shape(os=("macos", "windows")), a_worker(), "os", "needs macos or windows, has linux"),
    (a_shape(cpu_arch=("arm64",)), a_worker(), "cpu_arch", "needs arm64, has x86_64"),
    (a_shape(cpu_cores=64.0), a_worker(), "cpu_cores", "needs 64 cores, has 8 in all"),
    (a_shape(memory_gb=64.0), a_worker(), "memory", "needs 64 GB of memory, has 32 GB in all"),
    (a_shape(memory_gb=32.0), a_worker(memory_gb=31.98), "memory",
     "needs 32 GB of memory, has 31.9 GB in all"),
    (a_shape(disk_gb=900.0), a_worker(), "disk", "needs 900 GB of disk, has 500 GB"),
    (a_shape(data=("imagenet",)), a_worker(), "data", "needs data set imagenet, has none"),
    (a_shape(data=("imagenet",)), a_worker(data=("coco", "mnist")), "data",
     "needs data set imagenet, has only coco, mnist"),
    (a_shape(data=("x",)), a_worker(data=("a", "b", "c", "d")), "data",
     "needs data set x, has only a, b, c, ..."),
    (a_shape(data=("x",), data_here=("x",), targets=("remote",)), a_worker(target="remote"), "data",
     "needs data set x, has none"),
    (a_shape(secrets=("hf",)), a_worker(secrets=()), "secret", "needs secret hf, has none"),
    (a_shape(secrets=("hf",)), a_worker(secrets=("db", "wandb")), "secret",
     "needs secret hf, has only db, wandb"),
    (a_shape(secrets=("/run/hf",)), a_worker(secrets=("*",)), "secret",
     "needs secret /run/hf, has only *"),
    (a_shape(secrets=("hf",), secrets_here=True, targets=("remote",)),
     a_worker(target="remote", secrets=()), "secret", "needs secret hf, has none"),
    (a_shape(image=True), a_worker(containers=""), "image",
     "needs Podman or Docker, for its image, has neither"),
    (a_shape(image=True), a_worker(containers="", containers_note="docker, but it is off"),
     "image", "needs Podman or Docker, for its image, has docker, but it is off"),
    (a_shape(python=">=3.13"), a_worker(), "python", "needs Python>=3.13, has 3.12.7"),
    (a_shape(frameworks=(("torch", ">=2.6"),)), a_worker(), "framework",
     "needs torch>=2.6, has 2.5.1"),
    (a_shape(frameworks=(("jax", ""),)), a_worker(), "framework", "needs jax, has none"),
    (a_shape(providers=("aws",)), a_worker(target="cloud", provider="acme"), "provider",
     "needs provider aws, has acme"),
    (a_shape(regions=("eu",)), a_worker(region="us"), "region", "needs region eu, has us"),
    (a_shape(max_hourly_cost=2.0), a_worker(target="cloud"), "price",
     "needs at most 2.00 USD an hour, has no price"),
    (a_shape(max_hourly_cost=2.0), a_worker(target="cloud", hourly_cost=2.5), "price",
     "needs at most 2.00 USD an hour, has 2.50 USD"),
    (a_shape(max_hourly_cost=2.0), a_worker(target="cloud", hourly_cost=1.0, currency="EUR"),
     "price", "needs at most 2.00 USD an hour, has 1.00 EUR"),
]  # fmt: skip

UNKNOWN: list[tuple[Shape, WorkerView, str]] = [
    (a_shape(), a_worker(offline=True), "state"),
    (a_shape(memory_gb=1.0), a_worker(memory_gb=None), "memory"),
    (a_shape(disk_gb=1.0), a_worker(disk_gb=None), "disk"),
    (a_shape(secrets=("hf",)), a_worker(secrets=None), "secret"),
    (a_shape(image=True), a_worker(), "image"),
    (a_shape(python=">=3.8"), a_worker(interpreters=()), "python"),
    (a_shape(frameworks=(("torch", ""),)), a_worker(interpreters=()), "framework"),
    (a_shape(frameworks=(("torch", ""),)), a_worker(interpreters=(Interpreter("/p", "3.12"),)),
     "framework"),
    (a_shape(frameworks=(("torch", ">=2"),)),
     a_worker(interpreters=(Interpreter("/p", "3.12", {"torch": "from git"}),)), "framework"),
    (a_shape(providers=("aws",)), a_worker(target="cloud"), "provider"),
    (a_shape(regions=("eu",)), a_worker(target="cloud", provider="aws"), "region"),
]  # fmt: skip

BUSY: list[tuple[Shape, WorkerView, str, str]] = [
    (a_shape(), a_worker(draining=True), "state",
     "needs a worker that takes jobs, has one that drains"),
    (a_shape(cpu_cores=4.0), a_worker(allocations=[holding(6.0)]), "cpu_cores",
     "needs 4 free cores, has 2 of 8"),
    (a_shape(cpu_cores=0.5), a_worker(cpu_cores=2.0, allocations=[holding(1.75)]), "cpu_cores",
     "needs 0.5 free cores, has 0.25 of 2"),
    (a_shape(cpu_cores=1e-9), a_worker(allocations=[holding(9.0)]), "cpu_cores",
     "needs 1e-06 free cores, has 0 of 8"),
    (a_shape(memory_gb=16.0), a_worker(allocations=[holding(memory_gb=20.0)]), "memory",
     "needs 16 GB of free memory, has 12 of 32 GB"),
]  # fmt: skip

FITS: list[tuple[Shape, WorkerView]] = [
    (a_shape(), a_worker()),
    (a_shape(worker_ids=("lab-1", "lab-2")), a_worker("lab-1")),
    (a_shape(labels=(("pool", "a"),)), a_worker(labels={"pool": "a", "zone": "1"})),
    (a_shape(cpu_cores=8.0, memory_gb=32.0, disk_gb=500.0), a_worker()),
    (a_shape(data=("a", "b")), a_worker(data=("a", "b", "c"))),
    (a_shape(secrets=("a", "b")), a_worker(secrets=("a", "b", "c"))),
    (a_shape(secrets=("a", "b")), a_worker(secrets=("*",))),
    (a_shape(secrets=("a",), secrets_here=True), a_worker(secrets=None, target="local")),
    (a_shape(data=("a", "b"), data_here=("b",)), a_worker(data=("a",), target="local")),
    (a_shape(cpu_cores=0.1), a_worker(cpu_cores=0.3, allocations=[holding(0.1), holding(0.1)])),
    (a_shape(frameworks=(("torch", ">=2.2"), ("torch.cuda", ""))), a_worker()),
    (a_shape(python=">=3.13"), a_worker(interpreters=(Interpreter("/p", "3.14.0b1"),))),
    (a_shape(frameworks=(("torch", "==2.5.1"),)),
     a_worker(interpreters=(Interpreter("/p", "3.12", {"torch": "2.5.1+cu124"}),))),
    (a_shape(providers=("aws",), regions=("eu",)), a_worker()),
    (a_shape(max_hourly_cost=2.0), a_worker()),
    (a_shape(max_hourly_cost=2.0), a_worker(target="cloud", hourly_cost=2.0)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "worker", "name", "sentence"), NEVER)
def test_what_a_worker_can_never_do_is_said_with_numbers(
    shape: Shape, worker: WorkerView, name: str, sentence: str
) -> None:
    (verdict,) = judged(shape, worker)
    assert verdict.fit is Fit.NEVER
    assert reasons(shape, worker) == {name: sentence}


@pytest.mark.parametrize(("shape", "worker", "name"), UNKNOWN)
def test_what_is_not_known_waits(shape: Shape, worker: WorkerView, name: str) -> None:
    (verdict,) = judged(shape, worker)
    assert verdict.fit is Fit.UNKNOWN
    assert list(reasons(shape, worker)) == [name]


@pytest.mark.parametrize(("shape", "worker", "name", "sentence"), BUSY)
def test_what_a_worker_cannot_do_now_is_said_with_numbers(
    shape: Shape, worker: WorkerView, name: str, sentence: str
) -> None:
    (verdict,) = judged(shape, worker)
    assert verdict.fit is Fit.BUSY
    assert reasons(shape, worker) == {name: sentence}


@pytest.mark.parametrize(("shape", "worker"), FITS)
def test_what_fits_has_no_reason_against_it(shape: Shape, worker: WorkerView) -> None:
    (verdict,) = judged(shape, worker)
    assert verdict.fit is Fit.YES
    assert reasons(shape, worker) == {}


def test_a_pin_may_be_a_name() -> None:
    worker = a_worker("w-7f3a")
    named = type(worker)(worker.worker_id, "desk", worker.target, worker.capabilities)
    assert judged(a_shape(worker_ids=("desk",)), named)[0].fit is Fit.YES


@pytest.mark.parametrize(
    ("target", "changes", "fit"),
    [
        ("local", {"interpreter": MINE.path}, Fit.NEVER),
        ("local", {}, Fit.YES),
        ("remote", {"interpreter": MINE.path}, Fit.YES),
        ("local", {"interpreter": "/not/looked/at"}, Fit.UNKNOWN),
    ],
)
def test_frameworks_are_judged_on_the_python_that_will_run(
    target: str, changes: dict[str, Any], fit: Fit
) -> None:
    shape = a_shape(frameworks=(("torch", ">=2.5"),), **changes)
    worker = a_worker(target=target, interpreters=(PYTHON, MINE))
    assert judged(shape, worker)[0].fit is fit


def test_the_terminals_own_python_needs_no_second_look() -> None:
    shape = a_shape(python=">=3.13", interpreter="/new/python", interpreter_version="3.13.1")
    assert judged(shape, a_worker())[0].fit is Fit.YES
    assert judged(shape, a_worker(target="remote"))[0].fit is Fit.NEVER


def test_all_reasons_are_told_and_the_worst_decides() -> None:
    shape = a_shape(cpu_cores=64.0, memory_gb=16.0, disk_gb=1.0)
    worker = a_worker(allocations=[holding(memory_gb=20.0)], disk_gb=None)
    (verdict,) = judged(shape, worker)
    assert verdict.fit is Fit.NEVER
    assert [check.fit for check in verdict.checks][:3] == [Fit.NEVER, Fit.UNKNOWN, Fit.BUSY]
