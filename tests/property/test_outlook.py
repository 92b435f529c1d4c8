"""What is said of a job that waits is true: each suggestion was placed, each part of it is needed,
and a start that is told comes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import given, settings, strategies as st

from gpulayer.contracts.decision import Outcome, Pending, Shape, Snapshot, WorkerView
from gpulayer.contracts.ids import JobId
from gpulayer.contracts.jobspec import spec_to_json, validate_spec
from gpulayer.control_plane.scheduler.changes import applied, axes, smallest
from gpulayer.control_plane.scheduler.forecast import Forecast, begins
from gpulayer.control_plane.scheduler.newcomer import newcomer
from gpulayer.control_plane.scheduler.outlook import outlook
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.replay import as_seen
from gpulayer.control_plane.scheduler.shapes import shape_id, shape_of
from gpulayer.errors import SpecError
from gpulayer.simulate.engine import Sized, replay, sized
from gpulayer.simulate.fleet import read_fleet
from gpulayer.simulate.production import Production
from gpulayer.simulate.trace import TraceJob
from tests.support.fleets import snapshots

MANY = settings(max_examples=120, deadline=None)
FEW = settings(max_examples=60, deadline=None)


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Jobs that ask for much in several ways."""
    gpus = draw(st.sampled_from([0, 1, 2, 3, 6]))
    nodes = draw(st.sampled_from([1, 1, 2, 3]))
    resources: dict[str, Any] = {"cpu_cores": draw(st.sampled_from([0.5, 1, 3, 9]))}
    if gpus:
        resources |= {"accelerator": "gpu", "gpu_count": gpus}
        resources |= draw(st.sampled_from([{}, {"gpu_memory_gb": 48}, {"gpu_models": ["h100"]}]))
    resources |= draw(st.sampled_from([{}, {"memory_gb": 30}, {"memory_gb": 300}]))
    resources |= draw(st.sampled_from([{}, {}, {"disk_gb": 200}]))
    resources |= draw(st.sampled_from([{}, {}, {"frameworks": {"torch": ">=2.2"}}]))
    placement = draw(
        st.sampled_from(
            [
                {"target": "remote", "fallback_targets": ["local"]},
                {"target": "remote", "worker_labels": {"pool": "b"}},
                {"target": "remote", "worker_ids": ["w1"]},
                {"target": "local"},
            ]
        )
    )
    workload: dict[str, Any] = {"kind": "command", "command": ["true"]}
    if nodes > 1:
        workload = {"kind": "distributed", "launcher": "direct", "num_workers": nodes}
        workload |= {"function": "m:f"}
    spec = {"workload": workload, "resources": resources, "placement": placement}
    return spec | draw(st.sampled_from([{}, {"timeout_seconds": 5_000.0}]))


def shaped(spec: Mapping[str, Any]) -> Shape | None:
    try:
        return shape_of(spec_to_json(validate_spec(spec)), {})
    except SpecError:
        return None


def settled(snapshot: Snapshot) -> Snapshot:
    """Once a pass has placed what it can: those that are left wait."""
    now = dataclasses.replace(
        snapshot,
        limits={"now": 1_000.0},
        workers=tuple(dataclasses.replace(view, ahead=0, sent=()) for view in snapshot.workers),
    )
    decisions = place(now)
    placed = {d.job_id for d in decisions if d.outcome is Outcome.PLACED}
    *_, (last, seen) = [(None, now), *as_seen(now, decisions)]
    del last
    rest = tuple(p for p in now.queue if p.job_id not in placed)
    views = tuple(dataclasses.replace(view, hold=None) for view in seen.workers)
    return dataclasses.replace(now, queue=rest, workers=views)


def with_job(snapshot: Snapshot, shape: Shape, name: str = "mine") -> tuple[Snapshot, Pending]:
    """Behind all others."""
    job = Pending(JobId(name), shape_id(shape), 0, 1_000)
    shapes = {**snapshot.shapes, job.shape_id: shape}
    return dataclasses.replace(snapshot, shapes=shapes, queue=(*snapshot.queue, job)), job


def is_placed(snapshot: Snapshot, shape: Shape) -> bool:
    """By a pass over the whole queue."""
    whole, job = with_job(snapshot, shape)
    told = place(whole)
    return any(d.job_id == job.job_id and d.outcome is Outcome.PLACED for d in told)


@MANY
@given(snapshots(), specs())
def test_every_suggestion_is_placed_and_every_part_of_it_is_needed(
    snapshot: Snapshot, spec: dict[str, Any]
) -> None:
    shape = shaped(spec)
    if shape is None:
        return
    queue = settled(snapshot)
    whole, job = with_job(queue, shape)
    seen = outlook(whole, job, spec, shaped)
    if is_placed(queue, shape):
        assert seen.start == Forecast(1_000.0, True, "")
        assert seen.suggestions == ()
        return
    for one in seen.suggestions:
        if not one.fields:
            continue
        changed = shaped(applied(spec, one.fields))
        assert changed is not None
        assert is_placed(queue, changed) == bool(one.workers)
        parts = _parts(one.fields)
        assert one.together == (len(parts) > 1)
        for part in parts:
            less = shaped(applied(spec, {k: v for k, v in one.fields.items() if k not in part}))
            if less is not None and one.workers:
                assert not is_placed(queue, less), one.text


def _parts(fields: Mapping[str, Any]) -> list[set[str]]:
    """Fields that one flag sets."""
    where = {path for path in fields if path.startswith("placement.") and "strategy" not in path}
    gpus = {p for p in fields if p in ("resources.gpu_count", "workload.procs_per_worker")}
    rest = [{path} for path in fields if path not in where | gpus]
    return [part for part in (where, gpus) if part] + rest


@MANY
@given(snapshots(), specs())
def test_the_smallest_step_is_taken(snapshot: Snapshot, spec: dict[str, Any]) -> None:
    shape = shaped(spec)
    if shape is None or is_placed(queue := settled(snapshot), shape):
        return
    known = axes(spec, shape, queue.workers, None)

    def fits(fields: Mapping[str, Any]) -> bool:
        changed = shaped(applied(spec, fields))
        return changed is not None and is_placed(queue, changed)

    steps = {axis.name: axis.steps for axis in known}
    for change in smallest(known, fits):
        assert fits(change.fields)
        for name in change.axes:
            at = next(
                n for n, step in enumerate(steps[name]) if step.items() <= change.fields.items()
            )
            rest = {k: v for k, v in change.fields.items() if k not in steps[name][at]}
            assert not fits(rest | (dict(steps[name][at - 1]) if at else {}))


@FEW
@given(snapshots(), specs())
def test_workers_as_they_are_described_would_let_it_begin(
    snapshot: Snapshot, spec: dict[str, Any]
) -> None:
    shape = shaped(spec)
    if shape is None:
        return
    queue = settled(snapshot)
    whole, job = with_job(queue, shape)
    for one in outlook(whole, job, spec, shaped).suggestions:
        if not one.fields:
            count = 1 if one.text.startswith("one ") else int(one.text.split()[0])
            joined = [newcomer(shape, number) for number in range(count)]
            more = dataclasses.replace(queue, workers=(*queue.workers, *filter(None, joined)))
            assert is_placed(more, shape)
            fewer = dataclasses.replace(queue, workers=more.workers[:-1])
            assert not is_placed(fewer, shape)


class Asked(Production):
    """Writes down what is forecast of all that waits, once the last job has come."""

    def __init__(self, fleet: Sequence[WorkerView], last: float) -> None:
        super().__init__(fleet, "first_fit")
        self.last = last
        self.told: dict[int, Forecast] = {}

    def begin(self, now: float) -> Iterator[Sized]:
        yield from super().begin(now)
        if now == self.last and not self.told:
            queue = tuple(p for jobs in self._queue.values() for p in jobs.values())
            snapshot = Snapshot(self._shapes, queue, tuple(self._views.values()), {"now": now})
            self.told = {p.seq: begins(snapshot, p.job_id) for p in queue}


FLEETS = st.sampled_from(
    ["workers: [{gpus: 4}]", "workers: [{count: 3, gpus: 2}]", "workers: [{gpus: 4}, {gpus: 2}]"]
)
JOBS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 10.0, 50.0]),
        st.sampled_from([5.0, 60.0, 300.0, 2_000.0]),
        st.sampled_from([1, 1, 2, 3, 4]),
    ),
    min_size=1,
    max_size=14,
)


def ran(
    jobs: list[tuple[float, float, int]], fleet_text: str, slack: float
) -> tuple[Asked, dict[int, float]]:
    """What was forecast, and when each job began. Each promises `slack` times what it runs."""
    at, trace = 0.0, []
    for number, (gap, seconds, gpus) in enumerate(jobs):
        at += gap
        trace.append(TraceJob(f"j{number}", at, seconds, gpus, seconds * slack))
    fleet = read_fleet(fleet_text, "f.yaml")
    fitting, _ = sized(trace, fleet)
    policy = Asked(fleet, fitting[-1].job.at if fitting else 0.0)
    waits = replay(fitting, policy).waits
    return policy, {job.number: job.job.at + waits[job.number] for job in fitting}


@FEW
@given(JOBS, FLEETS)
def test_with_exact_limits_and_no_newcomer_every_start_is_the_one_that_was_forecast(
    jobs: list[tuple[float, float, int]], fleet: str
) -> None:
    policy, began = ran(jobs, fleet, 1.0)
    assert {number: told.at for number, told in policy.told.items()} == {
        number: began[number] for number in policy.told
    }


@FEW
@given(JOBS, FLEETS, st.sampled_from([1.5, 4.0]))
def test_a_start_that_is_sure_never_comes_later(
    jobs: list[tuple[float, float, int]], fleet: str, slack: float
) -> None:
    policy, began = ran(jobs, fleet, slack)
    sure = {number: told for number, told in policy.told.items() if told.is_sure}
    assert bool(sure) == bool(policy.told)
    assert all(told.at is not None and began[n] <= told.at for n, told in sure.items())
