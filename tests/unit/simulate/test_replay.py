"""Replays whose outcome can be worked out by hand."""

from __future__ import annotations

import pytest

from gpulayer.simulate.engine import Run, replay, sized
from gpulayer.simulate.fleet import read_fleet
from gpulayer.simulate.production import Production
from gpulayer.simulate.reference import Reference
from gpulayer.simulate.report import figures
from gpulayer.simulate.trace import read_trace

TRACE = """job_id,submission_time,duration,num_gpu
first,0,100,1
wide,1,50,2
short,2,98,1
long,3,200,1
"""


def run(trace: str, policy: str, gpus: int = 2, machines: int = 1) -> Run:
    fleet = read_fleet(f"workers: [{{count: {machines}, gpus: {gpus}}}]", "f.yaml")
    jobs, _ = sized(read_trace(trace, "t.csv"), fleet)
    if policy == "gpulayer":
        return replay(jobs, Production(fleet, "first_fit"))
    return replay(jobs, Reference(fleet, backfills=policy == "easy"))


def test_fifo_lets_nobody_pass() -> None:
    assert run(TRACE, "fifo").waits == {0: 0, 1: 99, 2: 148, 3: 147}


def test_easy_lets_pass_who_delays_nobody() -> None:
    assert run(TRACE, "easy").waits == {0: 0, 1: 99, 2: 0, 3: 147}


def test_ours_keeps_every_gpu_busy() -> None:
    waits = run(TRACE, "gpulayer").waits
    assert waits[0] == waits[2] == 0
    assert set(waits) == {0, 1, 2, 3}


@pytest.mark.parametrize("policy", ["fifo", "easy", "gpulayer"])
def test_a_job_larger_than_a_machine_takes_several_at_once(policy: str) -> None:
    trace = "job_id,submission_time,duration,num_gpu\na,0,10,1\nb,1,10,4\nc,2,1,0\n"
    ran = run(trace, policy, gpus=2, machines=2)
    assert ran.waits == {0: 0, 1: 9, 2: 8 if policy == "fifo" else 0}
    assert ran.ended == 20


def test_what_no_fleet_can_run_is_left_out() -> None:
    fleet = read_fleet("workers: [{count: 2, gpus: 2}]", "f.yaml")
    trace = "job_id,submission_time,duration,num_gpu\na,0,10,6\nb,0,10,3\nc,0,10,4\n"
    jobs, never = sized(read_trace(trace, "t.csv"), fleet)
    assert [(job.job.name, job.nodes, job.gpus) for job in jobs] == [("b", 3, 1), ("c", 2, 2)]
    assert never == 1


def test_the_figures_of_a_replay() -> None:
    fleet = read_fleet("workers: [{gpus: 2}]", "f.yaml")
    jobs, _ = sized(read_trace(TRACE, "t.csv"), fleet)
    told = figures(jobs, replay(jobs, Reference(fleet, backfills=False)), 2)
    assert told["classes"]["all"] == {
        "jobs": 4, "mean": 98.5, "median": 99, "p99": 148, "max": 148, "never_began": 0,
    }  # fmt: skip
    assert told["makespan"] == 350
    assert told["utilisation"] == (100 + 2 * 50 + 98 + 200) / 700
    assert list(told["classes"]) == ["all", "1", "2-7"]
