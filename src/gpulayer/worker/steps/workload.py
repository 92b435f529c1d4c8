"""The argument vector of the workload.

A leading `python` means the job's interpreter, and a function is that interpreter with the
stand-alone runner and a call file. The interpreter is named by its full path, because a virtual
environment is found from argv[0] alone (PEP 405).
"""

from __future__ import annotations

import json
import os

from gpulayer.worker.steps import plan, ranks, running, warm
from gpulayer.worker.steps.plan import TaskPlan

RESULT_BYTES = 1 << 20
"""A function's result in JSON up to here is told with its end; a longer one is an output."""

RUNTIME = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "runtime"))
IMAGE_PYTHON = "python3"
"""What runs a function or a launcher in an image."""
_RUNNER = os.path.join(RUNTIME, "function_runner.py")


def choose(task: TaskPlan) -> None:
    kind = task.workload["kind"]
    if kind == "distributed":
        _launch(task, _interpreter(task))
    elif kind == "function":
        work = task.workload
        _write_call(task, work["entrypoint"], work.get("args"), work.get("kwargs"))
        task.argv = [
            _interpreter(task),
            _RUNNER,
            plan.call_file(task.folder),
            plan.result_file(task.folder),
        ]
        warm.choose(task, _places(task), in_place=not _is_elsewhere(task))
    else:
        task.argv = list(task.workload["command"])
        if task.image is not None:
            return  # what it finds there is its own affair
        if task.argv[0] == "python" or (task.python and task.argv[0] == task.base_python()):
            task.argv[0] = _interpreter(task)  # a client spells `python` out where PATH lacks it
        if task.workload["command"][0] == "python" and task.assignment.run is None:
            warm.choose_script(task, in_place=not _is_elsewhere(task))
    if task.assignment.run is not None:
        running.lay(task)


def _interpreter(task: TaskPlan) -> str:
    if task.image is not None:
        return IMAGE_PYTHON
    return task.python or task.base_python()


def _launch(task: TaskPlan, python: str) -> None:
    """Unbuffered, as torchrun does it: the output of a rank is a pipe."""
    work = task.workload
    if work.get("function"):
        _write_call(task, work["function"], work.get("function_args"), work.get("function_kwargs"))
        program = [python, "-u", _RUNNER, plan.call_file(task.folder)]
        ranks.lay(task, python, program, results=True)
    else:
        here = "" if _is_elsewhere(task) else task.assignment.origin.get("script")
        script = str(here or work["entrypoint"])
        program = [python, "-u", script, *(work.get("args") or ())]
        ranks.lay(task, python, program, results=False)


def _places(task: TaskPlan) -> list[str]:
    """Where the function's module is looked for first."""
    origin = task.assignment.origin
    where = origin.get("function") or {}
    return list(where.get("sys_path") or [origin.get("cwd") or "."])


def _is_elsewhere(task: TaskPlan) -> bool:
    """Whether it runs in a workspace: paths of the machine that it comes from mean nothing."""
    return not task.here or bool(task.workload.get("source"))


def _write_call(task: TaskPlan, entrypoint: str, args: object, kwargs: object) -> None:
    module, _, function = entrypoint.partition(":")
    origin = task.assignment.origin
    where = origin.get("function") or {}
    paths, file = _places(task), where.get("file")
    if _is_elsewhere(task):  # what the origin says is meant inside the bundle
        workspace = plan.workspace(task.folder)
        paths, file = [workspace], file and os.path.join(workspace, file)
    call = {
        "module": where.get("module") or module,
        "function": function,
        "file": file,
        "source": where.get("source"),
        "sys_path": paths,
        "args": args or [],
        "kwargs": kwargs or {},
        "stand_in": True,
        "result_bytes": RESULT_BYTES,
    }
    descriptor = os.open(plan.call_file(task.folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(json.dumps(call))
