"""Reservations on whole replays: what is promised is kept, and nothing starves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given, settings, strategies as st

from gpulayer.contracts.decision import WorkerView
from gpulayer.simulate.engine import Run, Sized, replay, sized
from gpulayer.simulate.fleet import read_fleet
from gpulayer.simulate.production import Production
from gpulayer.simulate.trace import TraceJob

FEW = settings(max_examples=60, deadline=None)


@st.composite
def traces(draw: st.DrawFn, limits: st.SearchStrategy[float | None]) -> list[TraceJob]:
    jobs, at = [], 0.0
    for n in range(draw(st.integers(1, 30))):
        at += draw(st.sampled_from([0.0, 1.0, 30.0, 200.0]))
        seconds = draw(st.sampled_from([0.0, 5.0, 61.0, 333.0, 2_000.0]))
        factor = draw(limits)
        limit = None if factor is None else seconds * factor
        jobs.append(
            TraceJob(f"j{n}", at, seconds, draw(st.sampled_from([0, 1, 1, 2, 4, 8])), limit)
        )
    return jobs


FLEETS = st.sampled_from(
    [
        "workers: [{count: 1, gpus: 8}]",
        "workers: [{count: 4, gpus: 2, cpu_cores: 3}]",
        "workers: [{count: 1, gpus: 4}, {count: 2, gpus: 2, cpu_cores: 2}, {cpu_cores: 1}]",
    ]
)


class Watched(Production):
    """Writes down what is promised to whom."""

    def __init__(self, fleet: Sequence[WorkerView]) -> None:
        super().__init__(fleet, "first_fit")
        self.promised: dict[int, float] = {}
        self.broken: list[tuple[int, float, float]] = []

    def begin(self, now: float) -> Iterator[Sized]:
        for job in super().begin(now):
            promise = self.promised.get(job.number, now)
            if now > promise:
                self.broken.append((job.number, promise, now))
            yield job
        for job_id, at in self.reserved.items():
            self.promised.setdefault(int(job_id.removeprefix("job-")), at)


def run(jobs: list[TraceJob], fleet_text: str) -> tuple[Watched, Run, list[Sized]]:
    fleet = read_fleet(fleet_text, "f.yaml")
    fitting, _ = sized(jobs, fleet)
    policy = Watched(fleet)
    return policy, replay(fitting, policy), fitting


@FEW
@given(traces(st.sampled_from([1.0, 1.0, 1.5, 10.0])), FLEETS)
def test_a_job_never_begins_later_than_it_was_promised(jobs: list[TraceJob], fleet: str) -> None:
    policy, ran, fitting = run(jobs, fleet)
    assert policy.broken == []
    assert len(ran.waits) == len(fitting)


@FEW
@given(traces(st.sampled_from([None, None, 1.0, 3.0])), FLEETS)
def test_every_job_begins_in_the_end_whatever_limits_there_are(
    jobs: list[TraceJob], fleet: str
) -> None:
    _, ran, fitting = run(jobs, fleet)
    assert len(ran.waits) == len(fitting)
    again = run(jobs, fleet)[1]
    assert again.waits == ran.waits
