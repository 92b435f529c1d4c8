"""Traces and fleets from files: what is read, and what is refused with its line."""

from __future__ import annotations

import pytest

from gpulayer.errors import SpecError
from gpulayer.simulate.fleet import read_fleet
from gpulayer.simulate.trace import TraceJob, read_trace

HEAD = "job_id,submission_time,duration,num_gpu"


def test_jobs_come_in_the_order_of_their_arrival() -> None:
    text = f"{HEAD}\nlate,20,5,1\nearly,10,7.5,8\n"
    assert read_trace(text, "t.csv") == [
        TraceJob("early", 10, 7.5, 8, 7.5),
        TraceJob("late", 20, 5, 1, 5),
    ]


def test_what_a_job_promises_is_exact_none_a_multiple_or_its_own() -> None:
    text = f"{HEAD},time_limit\na,0,10,1,\nb,0,10,1,4\n"
    for limits, promised in ((1.0, 10), (None, None), (2.5, 25)):
        a, b = read_trace(text, "t.csv", limits)
        assert (a.limit, a.seconds) == (promised, 10)
        assert (b.limit, b.seconds) == (4, 4), "its own limit ends it"


@pytest.mark.parametrize(
    "row", ["x,-1,1,1", "x,1,nan,1", "x,1,1,1.5", "x,1,1", "x,1,1,-2", "x,inf,1,1", "x,1,1,²"]
)
def test_each_bad_line_is_told(row: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_trace(f"{HEAD}\na,0,1,1\n{row}\nb,0,1,1\nc,,1,1\n", "t.csv")
    assert [problem.line for problem in refused.value.problems] == [3, 5]


@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", HEAD])
def test_a_file_that_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"t\.csv:1"):
        read_trace(text, "t.csv")


def test_a_kind_of_machine_stands_for_many() -> None:
    text = "workers:\n- {count: 2, gpus: 8, name: big}\n- {gpus: 0, cpu_cores: 4}\n"
    fleet = read_fleet(text, "f.yaml")
    assert [(w.name, len(w.capabilities.gpus or ()), w.capabilities.cpu_cores) for w in fleet] == [
        ("big-0", 8, 64.0),
        ("big-1", 8, 64.0),
        ("machine-1", 0, 4),
    ]
    uuids = [gpu.uuid for w in fleet for gpu in w.capabilities.gpus or ()]
    assert len(set(uuids)) == 16


def test_what_workers_prints_is_a_fleet() -> None:
    (worker,) = read_fleet("workers: [{count: 1, gpus: 2}]", "f.yaml")
    import json

    printed = {"workers": [{"name": "lab", "capabilities": worker.capabilities.to_json()}]}
    (again,) = read_fleet(json.dumps(printed), "f.json")
    assert (again.name, again.capabilities) == ("lab", worker.capabilities)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("workers:\n- {gpus: 1}\n- {gpu: 1}\n", 3),
        ("workers:\n- {gpus: many}\n", 2),
        ("workers:\n- {gpus: 1, count: 0}\n", 2),
        ("workers:\n- {gpus: 1, count: 1000000}\n", 2),
        ("a: 1\nworkers: 3\n", 2),
        ("workers:\n- {name: a}\n- {name: a}\n", 1),
        ("workers:\n- 7\n", 2),
    ],
)
def test_a_bad_machine_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(SpecError) as refused:
        read_fleet(text, "f.yaml")
    assert [problem.line for problem in refused.value.problems] == [line]
