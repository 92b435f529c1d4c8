"""The image of a job: here or pulled before it starts, and the container around its command.

`provide` is a phase of the preparation, with a time limit; `wrap` makes the task's own process one
that runs the container, once all else about the task is settled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from gpulayer.contracts.images import parse
from gpulayer.errors import PreparationError
from gpulayer.runtime import container_shim
from gpulayer.worker.environments.building import Patience, TooLateError
from gpulayer.worker.images import container
from gpulayer.worker.images.container import Box
from gpulayer.worker.images.engine import PROXIES, Engine
from gpulayer.worker.images.store import Image
from gpulayer.worker.images.words import architecture
from gpulayer.worker.steps import workload
from gpulayer.worker.steps.plan import TaskPlan

PHASE = "image"
PATIENCE_SECONDS = 3600.0
"""How long a pull may take unless `environment.timeout_seconds` says."""


def provide(task: TaskPlan) -> None:
    """Raises `image-failed`, `disk-full` with what the engine said."""
    name = task.spec.get("image")
    if not name:
        return
    wanted = parse(str(name))
    asked = (task.spec.get("environment") or {}).get("timeout_seconds")
    seconds = float(asked or PATIENCE_SECONDS)
    patience = Patience.begin(task.clock, seconds, task.watch.is_wanted)

    def told(progress: str) -> None:
        task.watch.enters(f"{PHASE}: {progress}" if progress else PHASE)

    try:
        if wanted is None or wanted.digest is None or task.images is None:
            raise PreparationError("image-failed", f"{name} has no digest")
        found, how = task.images.provide(
            wanted, task.folder, patience, lambda: _proxies(task), told
        )
        _require_made_for(found)
    except PreparationError as error:
        late = isinstance(error, TooLateError)
        raise PreparationError(
            "image-failed" if late else error.code,
            f"its image could not be made ready on {task.worker}: "
            + (f"it was not there within {seconds:g} s" if late else error.message),
            where=f"worker {task.worker}, phase {PHASE}",
            why=error.why,
            hint=error.help or "gpulayer help images",
            job_id=task.assignment.job_id,
        ) from error
    task.image = found
    task.notes[PHASE] = how


def wrap(task: TaskPlan) -> None:
    """Run in a container what would have been the task's process. The last step. Raises
    `image-failed` where the engine cannot run one."""
    if task.image is None or task.images is None:
        return
    engine = task.images.engine()
    tasks = os.path.dirname(task.folder)
    name = container.name_of(tasks, task.assignment.task_id, task.assignment.fence)
    resources: Mapping[str, Any] = task.spec.get("resources") or {}
    box = Box(
        name,
        {
            container.HOME_LABEL: container.home_of(tasks),
            container.TASK_LABEL: task.assignment.task_id,
        },
        [*_folders(task)],
        _cwd(task),
        gpus=task.assignment.gpus,
        memory_gb=resources.get("memory_gb"),
        cpu_cores=resources.get("cpu_cores"),
    )
    if os.geteuid() != 0:  # what an image says of homes is about other users
        task.set.setdefault("HOME", task.set["GPULAYER_WORKSPACE"])
    kind = "with GPUs" if box.gpus else ""
    try:
        options = container.options_of(box, engine)
        limits = container.limits_of(box)
        found = task.images.trials.found(engine, task.image.name, options, limits, kind)
    except PreparationError as error:
        raise PreparationError(
            error.code,
            f"its container cannot run on {task.worker}: {error.message}",
            where=f"worker {task.worker}, phase {PHASE}",
            why=error.why,
            hint=error.help,
            job_id=task.assignment.job_id,
        ) from error
    _require_hidden(task, engine)
    names = [*task.set, "GPULAYER_FENCE", "PYTHONUNBUFFERED"]
    pidfile = os.path.join(task.folder, "container.pid")
    made = container.plan_of(box, engine, task.image.name, task.argv, names, found, pidfile)
    task.argv = container.write(os.path.join(task.folder, container.PLAN), made)
    task.outside = {"argv": made["ender"], "environ": dict(engine.environ)}
    if not found.has_groups:
        note = task.notes.get(PHASE, "")
        task.notes[PHASE] = f"{note}; {engine.kind} cannot limit its memory and cores here"


def end_file(folder: str) -> str:
    """Where the shim says why a container could not be run."""
    return os.path.join(folder, f"{container.PLAN}.end")


def _require_made_for(image: Image) -> None:
    ours = architecture(os.uname().machine)
    if image.architecture != ours:
        raise PreparationError(
            "image-failed",
            f"it is made for {image.architecture}, and this machine is {ours}",
        )


def _require_hidden(task: TaskPlan, engine: Engine) -> None:
    """A value that the engine could only be given among the words of its command is no secret."""
    for name, value in task.redact:
        if "\n" in value and container_shim.clashes(name, engine.environ):
            raise PreparationError(
                "secret-unsafe",
                f"the secret {name} cannot be given to a container",
                why=f"{engine.kind} reads {name} itself, and the value has several lines",
                hint="gpulayer help secret-unsafe",
                job_id=task.assignment.job_id,
            )


def _cwd(task: TaskPlan) -> str:
    return task.cwd or str(task.assignment.origin.get("cwd") or "/")


def _folders(task: TaskPlan) -> Iterator[str]:
    """What the job may look at: its own, data sets, and for a function or script where it is."""
    yield task.folder
    if task.in_place:
        yield _cwd(task)
    for name in task.spec.get("data") or ():
        if path := task.data.get(name):
            yield path
    if task.workload["kind"] != "command":
        yield workload.RUNTIME
        if task.in_place:
            origin = task.assignment.origin
            function = origin.get("function") or {}
            files = [file for file in (origin.get("script"), function.get("file")) if file]
            paths = [*map(os.path.dirname, files), *(function.get("sys_path") or ())]
            yield from filter(os.path.isdir, paths)


def _proxies(task: TaskPlan) -> Mapping[str, str]:
    """Of the terminal of a job here, else the worker's."""
    named: Mapping[str, str | None] = task.environ
    if task.assignment.envelope_id is not None:
        named = task.lookup(task.assignment.envelope_id, PROXIES)
    return {name: value for name in PROXIES if (value := named.get(name))}
