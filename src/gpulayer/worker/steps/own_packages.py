"""The packages of a job's own folder, as an editable installation would have them: modules on the
path, metadata, programs. Nothing is built, nothing is copied.

    TASK/packages/NAME-VERSION.dist-info   what `importlib.metadata` finds
    TASK/packages/bin/PROGRAM              of [project.scripts]
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpulayer.errors import PreparationError
from gpulayer.worker.environments.packages import VARIABLE, Local, Project, project_of
from gpulayer.worker.steps import plan
from gpulayer.worker.steps.plan import TaskPlan

FOLDER = "packages"
_PROGRAM = """#!/bin/sh
'''exec' '{python}' "$0" "$@"
' '''
import sys
from {module} import {first}
sys.exit({function}())
"""
"""For both: the shell begins its Python (whose path may be too long for a `#!` line), which takes
the same two lines for a text."""


def lay(task: TaskPlan, python: str, beside: str, packages: Sequence[Local]) -> list[str]:
    """Where its programs are, if it has any. `beside`: the folder of the file that names them.
    Raises `environment-failed` where one cannot be used from its folder."""
    own = os.path.join(task.folder, FOLDER)
    paths: list[str] = []
    programs = os.path.join(own, "bin")
    for local in packages:
        folder = os.path.normpath(os.path.join(beside, local.path))
        _require_sent(task, local, folder)
        project = project_of(local, folder)
        paths += project.roots
        _describe(own, local, project)
        for name, target in project.scripts.items():
            _write_program(programs, name, target, python)
    if paths:
        task.set[VARIABLE] = os.pathsep.join([*dict.fromkeys(paths), own])
    return [programs] if os.path.isdir(programs) else []


def _require_sent(task: TaskPlan, local: Local, folder: str) -> None:
    """In a workspace there is what travelled and nothing else."""
    root = plan.workspace(task.folder)
    if not task.in_place and folder != root and not folder.startswith(root + os.sep):
        raise PreparationError(
            "environment-failed",
            f"{local.name} is in {local.path}, outside of the folder that was sent",
            why="a lock travels with the packages beside it: send the folder that holds them all, "
            "with --source",
            hint="gpulayer help requirements",
        )


def _describe(own: str, local: Local, project: Project) -> None:
    info = os.path.join(own, f"{local.name.replace('-', '_')}-{local.version}.dist-info")
    os.makedirs(info, 0o700, exist_ok=True)
    about = f"Metadata-Version: 2.1\nName: {local.name}\nVersion: {local.version}\n"
    points = "".join(
        f"[{group}]\n" + "".join(f"{key} = {target}\n" for key, target in found.items())
        for group, found in project.entry_points.items()
    )
    for file, text in (("METADATA", about), ("entry_points.txt", points)):
        with open(os.path.join(info, file), "w", encoding="utf-8") as whole:
            whole.write(text)


def _write_program(folder: str, name: str, target: str, python: str) -> None:
    module, _, function = target.partition("[")[0].strip().partition(":")
    is_sane = all(part.isidentifier() for part in (*module.split("."), *function.split(".")))
    if os.path.basename(name) != name or not is_sane:
        return  # no installer would write it either
    os.makedirs(folder, 0o700, exist_ok=True)
    first = function.partition(".")[0]
    text = _PROGRAM.format(python=python, module=module, first=first, function=function)
    descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
