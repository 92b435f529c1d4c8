"""A run: elements of one array, indices in a row, that one task runs one after another. Pure.

What the worker is told of one (`Assignment.run`) is the job's own words with the part of the array
that it needs; what it tells (`Exit.elements`) is an object for each element that has ended:

    {index, outcome, reason, message, exit_code, started_at, ended_at, value, error, outputs}

as in an `Exit`, without what is as for one that returned nothing. Those that it does not name have
not ended: the first of them was begun, if any was. While the run goes on, those that succeeded and
left no file may be told before (`TaskReport.elements`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpulayer.contracts.elements import element_spec, grid_of
from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.states import TERMINAL_TASK_STATES, Reason, TaskState
from gpulayer.errors import UsageError

_KINDS = {
    "index": "int",
    "outcome": "str",
    "reason": "str",
    "message": "str",
    "exit_code": "int | None",
    "started_at": "float | None",
    "ended_at": "float | None",
    "value": "str | None",
    "error": "Mapping[str, Any] | None",
    "outputs": "tuple[Mapping[str, Any], ...]",
}
_KINDS_OF = frozenset(_KINDS)
_PLAIN = {"outcome": TaskState.SUCCEEDED.value, "reason": Reason.EXITED.value, "exit_code": 0}
_KEPT = ("workload", "env")

VALUES = ".values"
"""The folder of inputs in which a function's large arguments travel, `runtime.values.FOLDER`."""


def may_run(spec: Mapping[str, Any], *, in_place: bool) -> bool:
    """Whether elements of an array may share a task. `in_place`: they run in a folder of their
    user's; a command that gets a workspace of its own keeps it."""
    kind = spec["workload"]["kind"]
    if kind not in ("command", "function") or (kind == "command" and not in_place):
        return False
    apart = ("secrets", "checkpoint", "image", "stdin", "outputs")
    if any(spec.get(name) for name in apart):
        return False
    # What a user named as an input is an element's own to change; arguments are only read.
    inputs = spec.get("inputs") or ()
    return all(kind == "function" and item["path"].startswith(f"{VALUES}/") for item in inputs)


def told(spec: Mapping[str, Any], first: int, last: int) -> dict[str, Any]:
    """What a worker needs to know of the elements from `first` to `last`."""
    array = spec["array"]
    ends = array.get("max_failures") is not None
    if array.get("items") is not None:
        array = {"items": array["items"][first : last + 1], "from": first}
    kept = {name: spec[name] for name in _KEPT if spec.get(name)}
    run = {"first": first, "last": last, "spec": {**kept, "array": array}}
    return {**run, "ends_with_failure": True} if ends else run


def specs(run: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Index and job of each element, in order."""
    spec = run["spec"]
    step = grid_of(spec).step
    for index in range(run["first"], run["last"] + 1, step):
        yield index, element_spec(spec, index)


def plain(index: int, started_at: float, ended_at: float, value: str | None) -> dict[str, Any]:
    """Of an element that did what it was there for."""
    told = {"index": index, "started_at": started_at, "ended_at": ended_at}
    return told if value is None else {**told, "value": value}


def written(index: int, end: Exit) -> dict[str, Any]:
    """Of any other."""
    found = {name: getattr(end, name) for name in _KINDS if name != "index"}
    return {"index": index, **{name: value for name, value in found.items() if value}} | {
        "exit_code": end.exit_code
    }


def ends_in(rows: Iterable[Mapping[str, Any]]) -> dict[int, Exit]:
    """How each element ended that did. Raises `usage` where one is not what it should be."""
    found: dict[int, Exit] = {}
    for row in rows:
        fitted("an element", row, _KINDS)
        values = {**_PLAIN, **{name: row[name] for name in row if name in _KINDS_OF}}
        index = values.pop("index", None)
        if index is None or values["outcome"] not in TERMINAL_TASK_STATES:
            raise UsageError("usage", f"element {index} cannot end as {values['outcome']!r}")
        found[index] = Exit(**values)
    return found
