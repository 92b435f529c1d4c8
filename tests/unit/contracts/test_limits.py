"""Each row of the table of limits at n-1, n and n+1."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpulayer.contracts import limits, validate_jobfile, validate_spec
from gpulayer.errors import SpecError
from tests.unit.contracts.specs import ARTIFACT, command, distributed, function, resources

Make = Callable[[int], Any]


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _env_of(size: int) -> dict[str, Any]:
    return command(env={"A": "x" * (size - len("A=") - 1)})


def _spec_of(size: int) -> dict[str, Any]:
    spec = function(args=[""])
    empty = len(json.dumps(spec, separators=(",", ":")))
    return function(args=["x" * (size - empty)])


def _path(size: int) -> str:
    return "/".join(["p" * 200] * (size // 201) + ["q" * (size % 201)])


def _paths(path: str) -> dict[str, Any]:
    return command(outputs=[path])


def _matrix(names: int) -> dict[str, Any]:
    return command(array={"matrix": {f"p{n}": [1] for n in range(names)}})


SPECS: dict[str, Make] = {
    "SPEC_BYTES": _spec_of,
    "NAME_CHARACTERS": lambda n: command(name="a" * n),
    "LABELS": lambda n: command(labels={f"k{i}": "" for i in range(n)}),
    "LABEL_CHARACTERS": lambda n: command(labels={"k" * n: "v" * n}),
    "ENV_NAMES": lambda n: command(env={f"A{i}": "" for i in range(n)}),
    "ENV_BYTES": _env_of,
    "ARGV_ITEMS": lambda n: {"workload": {"kind": "command", "command": ["a"] * n}},
    "JSON_DEPTH": lambda n: function(args=[_nested(n - 1)]),
    "SECRETS": lambda n: command(secrets=[{"name": f"S{i}"} for i in range(n)]),
    "SECRET_KEY_CHARACTERS": lambda n: command(
        secrets=[{"name": "S", "source": "file", "key": "k" * n}]
    ),
    "INPUTS": lambda n: command(inputs=[{"artifact": ARTIFACT, "path": f"f{i}"} for i in range(n)]),
    "URL_CHARACTERS": lambda n: command(
        inputs=[{"artifact": ARTIFACT, "path": "x", "url": "https://h/".ljust(n, "x")}]
    ),
    "OUTPUTS": lambda n: command(outputs=["a"] * n),
    "PATH_BYTES": lambda n: _paths(_path(n)),
    "PATH_PART_BYTES": lambda n: _paths("p" * n),
    "PATH_PARTS": lambda n: _paths("/".join("p" * n)),
    "ENTRYPOINT_CHARACTERS": lambda n: function("m:" + "f" * (n - 2)),
    "SPECIFIER_CHARACTERS": lambda n: resources(python=">=" + "1" * (n - 2)),
    "FRAMEWORKS": lambda n: resources(frameworks={f"f{i}": "" for i in range(n)}),
    "REQUIREMENTS": lambda n: command(environment={"requirements": ["a"] * n}),
    "REQUIREMENT_CHARACTERS": lambda n: command(environment={"requirements": ["a" * n]}),
    "IMAGE_CHARACTERS": lambda n: command(image="a" * n),
    "CHOICES": lambda n: command(placement={"worker_ids": ["w"] * n}),
    "CHOICE_CHARACTERS": lambda n: command(placement={"worker_ids": ["w" * n]}),
    "GPUS_PER_NODE": lambda n: resources(accelerator="cuda", gpu_count=n),
    "GIGABYTES": lambda n: resources(memory_gb=n),
    "CPU_CORES": lambda n: resources(cpu_cores=n),
    "NODES": lambda n: distributed({"num_workers": n}),
    "PROCESSES_PER_NODE": lambda n: distributed({"procs_per_worker": n}),
    "ATTEMPTS": lambda n: command(retry={"max_attempts": n}),
    "RESTARTS": lambda n: distributed(resume={"max_restarts": n}),
    "SECONDS": lambda n: command(timeout_seconds=n),
    "PRIORITY": lambda n: command(priority=-n),
    "HOURLY_COST": lambda n: command(placement={"max_hourly_cost": n}),
    "ARRAY_ELEMENTS": lambda n: command(array={"count": n}),
    "ARRAY_INDEX": lambda n: command(array={"count": 2, "first": n - 1}),
    "ARRAY_ITEMS": lambda n: command(array={"items": [0] * n}),
    "ARRAY_PARAMETERS": _matrix,
}
FILES: dict[str, tuple[str, Callable[[int], str]]] = {
    "FILE_BYTES": ("job.json", lambda n: json.dumps(command()).ljust(n)),
    "FILE_NODES": (
        "job.yaml",
        # seven values around as many zeros as are left
        lambda n: (
            "workload: {kind: command, command: [a]}\narray: {items: [" + "0," * (n - 7) + "]}"
        ),
    ),
    "FILE_DEPTH": ("job.json", lambda n: '{"a":' * n + "1" + "}" * n),
}


SOURCES = {"SOURCE_BYTES", "SOURCE_ENTRIES", "SOURCE_UNPACKED_BYTES", "FOLDER_BYTES"}
"""Tried in `unit/artifacts`."""


PIPES = {"PIPED_BYTES"}
"""Tried in `unit/sdk`."""

CHECKPOINTS = {"CHECKPOINT_FILES"}
"""Tried in `test_checkpoint_files`."""
METRICS = {"METRIC_NAME", "METRIC_POINTS", "METRIC_SERIES", "METRIC_STEP"}
"""Of what a job reports: tried in `test_metrics`."""

STREAMS = {"STREAMS_PER_JOB", "STREAMS_PER_PLANE", "EXEC_BYTES"}
"""Of visits to a running job: `unit/control_plane/test_streams` tries those of one job."""

FETCHED = {"FETCHED_BYTES"}
"""Tried in `unit/worker`, at less."""


def test_the_table_is_tried_whole() -> None:
    rows = {name for name in vars(limits) if name.isupper()}
    elsewhere = SOURCES | PIPES | CHECKPOINTS | METRICS | STREAMS | FETCHED
    assert rows == {*SPECS, *FILES, "PROBLEMS"} | elsewhere


@pytest.mark.parametrize("row", SPECS)
def test_a_spec_is_taken_up_to_its_limit_and_no_further(row: str) -> None:
    limit = getattr(limits, row)
    validate_spec(SPECS[row](limit - 1))
    validate_spec(SPECS[row](limit))
    with pytest.raises(SpecError) as caught:
        validate_spec(SPECS[row](limit + 1))
    assert str(limit) in str(caught.value)


@pytest.mark.parametrize("row", FILES)
def test_a_file_is_read_up_to_its_limit_and_no_further(row: str) -> None:
    name, make = FILES[row]
    limit = getattr(limits, row)
    assert not _too_much(make(limit - 1), name)
    assert not _too_much(make(limit), name)
    assert _too_much(make(limit + 1), name)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_refusal_lists_so_many_problems_and_says_when_there_are_more(more: int) -> None:
    count = limits.PROBLEMS + more
    with pytest.raises(SpecError) as caught:
        validate_spec(command(env={f"A {n}": "x" for n in range(count)}))
    assert len(caught.value.problems) == min(count, limits.PROBLEMS)
    assert caught.value.message.startswith("more than") == (more == 1)


def _too_much(text: str, name: str) -> bool:
    """Whether the file as such was refused; what is in it may be wrong besides."""
    try:
        validate_jobfile(text, name)
    except SpecError as refused:
        return any(problem.message.startswith("the file ") for problem in refused.problems)
    return False
