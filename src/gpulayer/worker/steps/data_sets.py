"""Where the job finds the data sets that it names. A path is looked at here, at each start, and is
told to the job alone.

A job here has what its terminal names in `GPULAYER_DATA_*`, before what the worker declared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpulayer.contracts.data_sets import variable
from gpulayer.errors import PreparationError
from gpulayer.worker.steps.plan import TaskPlan


def provide(task: TaskPlan) -> None:
    """Raises `data-missing`, naming the data set and never a path."""
    wanted = task.spec.get("data") or ()
    terminal: Mapping[str, str | None] = {}
    if wanted and task.assignment.envelope_id is not None:
        terminal = task.lookup(task.assignment.envelope_id, [variable(name) for name in wanted])
    for name in wanted:
        path = terminal.get(variable(name)) or task.data.get(name) or ""
        if not (os.path.isabs(path) and os.path.exists(path)):
            raise _missing(task, name)
        task.set[variable(name)] = path


def _missing(task: TaskPlan, name: str) -> PreparationError:
    declare = f"export {variable(name)}=PATH" if task.here else f"gpulayer join --data {name}=PATH"
    return PreparationError(
        "data-missing",
        f"the data set {name} is not where it was said to be",
        why="its path does not exist on the machine of the job now",
        hint=(declare, f"gpulayer retry {task.assignment.job_id}"),
        job_id=task.assignment.job_id,
    )
