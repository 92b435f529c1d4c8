"""Hypothesis strategies for small, odd fleets and queues."""

from __future__ import annotations

from hypothesis import strategies as st

from gpulayer.contracts.capabilities import GpuDevice, Interpreter
from gpulayer.contracts.decision import Allocation, Shape, Snapshot, WorkerView
from tests.support.builders import a_gpu, a_shape, a_snapshot, a_worker

MAYBE = [True, True, True, None, False]
SPREAD = st.sampled_from(["spread", "first_fit", "most_free_memory"])


@st.composite
def devices(draw: st.DrawFn, worker: str) -> tuple[GpuDevice, ...] | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    vendor_of_all = draw(st.sampled_from(["a100", "rtx4090", "m2", "mi300x"]))
    count = draw(st.integers(0, 1 if vendor_of_all == "m2" else 4))
    model = st.sampled_from(["a100", "rtx4090"]) if vendor_of_all[0] in "ar" else st.just("")
    return tuple(
        a_gpu(
            f"GPU-{worker}-{index}",
            draw(model) or vendor_of_all,
            index=index,
            memory_gb=draw(st.sampled_from([None, 16.0, 24.0, 80.0])),
            compute_capability=draw(st.sampled_from([None, "7.5", "8.0", "9.0"])),
            healthy=draw(st.sampled_from(MAYBE)),
            foreign_pids=draw(st.sampled_from([(), (), (), (812,)])),
            link_group=draw(st.sampled_from([None, 0, 1])),
            numa_node=draw(st.sampled_from([None, 0, 1])),
            mig_parent=draw(st.sampled_from([None, None, None, "GPU-x"])),
        )
        for index in range(count)
    )


@st.composite
def workers(draw: st.DrawFn, name: str) -> WorkerView:
    gpus = draw(devices(name))
    cores = draw(st.sampled_from([0.5, 2.0, 4.0]))
    memory = draw(st.sampled_from([None, 8.0, 32.0]))
    held = []
    if draw(st.booleans()):
        held.append(
            Allocation(
                f"t-{name}",
                "other-1",
                draw(st.sampled_from([0.5, 1.0])),
                draw(st.sampled_from([0.0, 4.0])),
                tuple(g.uuid for g in (gpus or ()) if draw(st.booleans())),
                draw(st.sampled_from([None, 900.0, 1_060.0, 1_500.0])),
            )
        )
    known = draw(st.sampled_from([None, {}, {"torch": "2.1.0"}, {"torch": "2.5.1"}]))
    version = draw(st.sampled_from([None, "3.9.1", "3.12.0"]))
    return a_worker(
        name,
        gpus,
        target=draw(st.sampled_from(["local", "remote", "cloud"])),
        allocations=held,
        draining=draw(st.integers(0, 9)) == 0,
        offline=draw(st.integers(0, 9)) == 0,
        ahead=draw(st.sampled_from((0, 0, 1, 4))),
        sent=draw(st.lists(st.integers(0, 2), max_size=3)),
        hourly_cost=draw(st.sampled_from([None, 1.0, 3.0])),
        cpu_cores=cores,
        memory_gb=memory,
        disk_gb=draw(st.sampled_from([None, 10.0, 100.0])),
        os=draw(st.sampled_from(["linux", "macos"])),
        labels=draw(st.sampled_from([{}, {"pool": "a"}, {"pool": "b"}])),
        provider=draw(st.sampled_from([None, None, "aws"])),
        interpreters=draw(st.sampled_from([(), (Interpreter("/p", version, known),)])),
    )


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    gpus = draw(st.sampled_from([0, 0, 1, 2, 3]))

    def seldom(value: object, otherwise: object) -> object:
        return draw(st.sampled_from([otherwise, otherwise, otherwise, value]))

    return a_shape(
        gpus,
        accelerator=draw(st.sampled_from(["gpu", "cuda", "mps", "rocm"])) if gpus else "cpu",
        gpu_memory_gb=seldom(24.0, None) if gpus else None,
        gpu_memory_kind=seldom("unified", None) if gpus else None,
        gpu_models=seldom(("a100",), ()) if gpus else (),
        min_compute_capability=seldom("8.0", None) if gpus else None,
        visible_gpus=seldom(("1", "0"), None) if gpus else None,
        cpu_cores=draw(st.sampled_from([0.1, 0.5, 1.0, 3.0])),
        memory_gb=draw(st.sampled_from([None, 3.0, 16.0])),
        disk_gb=seldom(50.0, None),
        os=seldom(("linux",), ()),
        frameworks=seldom((("torch", ">=2.2"),), ()),
        python=seldom(">=3.10", None),
        nodes=(nodes := draw(st.sampled_from([1, 1, 1, 2, 3]))),
        distinct=nodes > 1 and draw(st.booleans()),
        targets=draw(
            st.sampled_from([("local", "remote", "cloud"), ("remote", "local"), ("local",)])
        ),
        labels=seldom((("pool", "a"),), ()),
        providers=seldom(("aws",), ()),
        strategy=draw(SPREAD),
        max_hourly_cost=seldom(2.0, None),
        limit=draw(st.sampled_from([None, None, 60.0, 400.0])),
        nested=seldom(True, False),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    names = [f"w{i}" for i in range(draw(st.integers(0, 5)))]
    kinds = draw(st.lists(shapes(), min_size=1, max_size=4))
    jobs = [
        (
            draw(st.sampled_from(kinds)),
            {
                "priority": draw(st.sampled_from([0, 0, 1, -3])),
                "fail_if_unschedulable": draw(st.booleans()),
                "since": draw(st.sampled_from([None, 0.0, 990.0])),
            },
        )
        for _ in range(draw(st.integers(0, 12)))
    ]
    limits = draw(st.sampled_from([{}, {"max_placements": 3}, {"detail": 2}]))
    limits |= draw(st.sampled_from([{}, {"now": 1_000.0}]))
    return a_snapshot(jobs, [draw(workers(name)) for name in names], **limits)
