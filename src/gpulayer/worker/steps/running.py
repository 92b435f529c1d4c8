"""A run of elements: what its loop is told, and how each of them ended.

The loop (`runtime.element_loop`) writes down each end as it comes, so what has ended is known
whoever dies afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpulayer.artifacts.collect import Collected
from gpulayer.contracts import runs
from gpulayer.contracts.messages import Exit
from gpulayer.runtime import element_loop, exits
from gpulayer.worker.steps import ending, plan
from gpulayer.worker.steps.plan import TaskPlan

RUN_SECONDS = 1.0
"""When no other element of a run is begun; what is left goes back to the queue."""
_ENDS_BYTES = 16 << 20
"""More than a loop ever writes."""
_LOOP = os.path.realpath(element_loop.__file__)


def lay(task: TaskPlan) -> None:
    """Puts the loop in the place of the one command or call."""
    run = task.assignment.run
    assert run is not None
    limits = {
        "seconds": RUN_SECONDS,
        "timeout": task.assignment.timeout_seconds,
        "grace": plan.GRACE_SECONDS,
        "ends_with_failure": bool(run.get("ends_with_failure")),
    }
    ends = plan.ends_file(task.folder)
    if task.workload["kind"] == "function":
        calls = [
            [index, work.get("args") or [], work.get("kwargs") or {}, env]
            for index, work, env in _each(run)
        ]
        path = plan.call_file(task.folder)
        with open(path, encoding="ascii") as file:
            call = json.load(file)
        _write(path, {**call, **limits, "elements": calls})
        task.argv[3] = ends
        return
    program = task.argv[0] if task.argv[0] != task.workload["command"][0] else None
    commands = [
        [index, [program or work["command"][0], *work["command"][1:]], env]
        for index, work, env in _each(run)
    ]
    path = plan.call_file(task.folder)
    _write(path, {**limits, "elements": commands})
    task.argv = [sys.executable, "-I", "-S", _LOOP, path, ends]


def ends(folder: str, note: Mapping[str, Any], outputs: Callable[[str], Collected]) -> list[Any]:
    """What is told of each element that has ended. `outputs` stores what is in a folder."""
    found = []
    for index, started, ended, code, signum, result in _lines(plan.ends_file(folder)):
        if not note["first"] <= index <= note["last"]:
            continue
        left = os.path.join(folder, element_loop.ASIDE, str(index))
        kept = outputs(left) if os.path.isdir(left) else None
        if code == 0 and kept is None:
            value = ending.value_in(result) if isinstance(result, dict) else None
            found.append(runs.plain(index, started, ended, value))
            continue
        end = _end(code, signum, started, ended, result)
        if kept is not None:
            end = ending.with_outputs(end, kept.outputs, kept.note)
        found.append(runs.written(index, end))
    return found


def done(folder: str, note: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Of a run that goes on: those that succeeded and left no file, in the order of their ends. All
    others are told with its end."""
    for index, started, ended, code, _, result in _lines(plan.ends_file(folder)):
        if code or not note["first"] <= index <= note["last"]:
            continue
        if not os.path.isdir(os.path.join(folder, element_loop.ASIDE, str(index))):
            value = ending.value_in(result) if isinstance(result, dict) else None
            yield runs.plain(index, started, ended, value)


def _each(run: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any], dict[str, str]]]:
    for index, spec in runs.specs(run):
        yield index, spec["workload"], spec["env"]


def _end(code: int, signum: int, started: float, ended: float, result: Any) -> Exit:
    is_late = isinstance(result, dict) and result.get("timed_out")
    raw = exits.ended(
        signum or code << 8,  # as wait(2) says it
        cause=exits.TIMEOUT if is_late else None,
        reason=None,
        out_of_memory=False,
        started_at=started,
        ended_at=ended,
        usage={},
        leftovers=0,
    )
    end = ending.of_process(raw)
    return ending.with_said(end, result) if isinstance(result, dict) else end


def _lines(path: str) -> Iterator[tuple[int, float, float, int, int, Any]]:
    """Those that are whole, of a file that the job could have written to as well."""
    for line in ending.read_own(path, _ENDS_BYTES).split("\n")[:-1]:
        try:
            _, _, index, started, ended, code, signum, result = json.loads(
                line, parse_constant=ending.no_number
            )
        except (ValueError, TypeError, RecursionError):
            return
        numbers = (index, code, signum)
        times = (started, ended)
        if any(type(n) is not int for n in numbers) or any(type(t) is not float for t in times):
            return
        if not (0 <= code < 256 and 0 <= signum < 127):
            return  # no end of a process
        yield index, started, ended, code, signum, result


def _write(path: str, told: Mapping[str, Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(json.dumps(told))  # by far faster than to dump into it
