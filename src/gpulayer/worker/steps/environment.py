"""The environment of a job that names requirements: reused or prepared, and first on its PATH.

It lies on the Python that the job would have had. Nothing is installed into that one, nor into any
other environment of its user's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gpulayer.errors import GPULayerError, PreparationError, StorageError
from gpulayer.worker.environments import files, settings
from gpulayer.worker.environments.base import Base, Environ
from gpulayer.worker.environments.building import Patience
from gpulayer.worker.environments.packages import VARIABLE
from gpulayer.worker.environments.store import Wanted
from gpulayer.worker.steps import own_packages, plan
from gpulayer.worker.steps.plan import TaskPlan

PHASE = "environment"
PATIENCE_SECONDS = 1800.0
"""How long a preparation may take unless `environment.timeout_seconds` says."""


def provide(task: TaskPlan) -> None:
    """Raises `environment-failed`, `interpreter-gone`, `disk-full` with what the installer said."""
    lines, file = requirements(task.spec), file_of(task.spec)
    if not lines and not file:
        return
    task.watch.enters(PHASE)
    asked = task.spec["environment"].get("timeout_seconds")
    seconds = float(asked or PATIENCE_SECONDS)
    patience = Patience.begin(task.clock, seconds, task.watch.is_wanted)

    @cache  # it is not needed to use again what is there
    def environ() -> Mapping[str, str]:
        return settings.variables(task.environ, _terminal(task))

    try:
        given = files.read(_folder(task), file) if file else None
        wanted = Wanted(lines, _base(task, environ), task.folder, environ, given)
        ready = task.environments.provide(wanted, patience)
        beside = os.path.join(_folder(task), os.path.dirname(file))
        programs = own_packages.lay(task, ready.python, beside, ready.packages)
    except (PreparationError, StorageError) as error:
        raise _placed(task, error) from error
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise  # it is prepared again
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        words = "the disk is full" if is_full else error.strerror or str(error)
        slug = "disk-full" if is_full else "environment-failed"
        raise _placed(task, PreparationError(slug, words, why=str(error))) from error
    task.python = ready.python
    task.notes[PHASE] = ready.how
    _activate(task, ready.folder, programs)


def _placed(task: TaskPlan, error: GPULayerError) -> PreparationError:
    """With the worker and the phase in it."""
    return PreparationError(
        error.code,
        f"its environment could not be prepared on {task.worker}: {error.message}",
        where=f"worker {task.worker}, phase {PHASE}",
        why=error.why,
        hint=error.help or f"gpulayer help {error.code}",
        job_id=task.assignment.job_id,
        details=error.details,
    )


def requirements(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What must be installed for a job."""
    return tuple((spec.get("environment") or {}).get("requirements") or ())


def file_of(spec: Mapping[str, Any]) -> str:
    """The file that says so; empty where there is none."""
    return str((spec.get("environment") or {}).get("file") or "")


def is_asked(spec: Mapping[str, Any]) -> bool:
    return bool(requirements(spec) or file_of(spec))


def _folder(task: TaskPlan) -> str:
    """Where the file is: in the source that was sent, else where the job runs or its function is
    defined. A job of another machine that brings no source has it nowhere."""
    if task.workload.get("source") or not task.here:
        return plan.workspace(task.folder)
    origin = task.assignment.origin
    paths = (origin.get("function") or {}).get("sys_path") or [origin.get("cwd") or "/"]
    return str(paths[0])


def _base(task: TaskPlan, environ: Environ) -> Base:
    cwd = str(task.assignment.origin.get("cwd") or "/") if task.here else "/"
    return task.environments.bases.of(task.base_python(), environ, cwd)


def _terminal(task: TaskPlan) -> settings.Lookup | None:
    envelope = task.assignment.envelope_id
    if envelope is None:
        return None

    def lookup(names: Sequence[str]) -> Mapping[str, str | None]:
        return task.lookup(envelope, names)

    return lookup


def _activate(task: TaskPlan, folder: str, programs: Sequence[str]) -> None:
    """As its `activate` does it: its programs come before all others."""
    said = task.set.get("PATH")
    if said is None and task.whole is not None:
        said = task.whole.get("PATH")
    elif said is None and task.assignment.envelope_id is not None:
        said = task.lookup(task.assignment.envelope_id, ["PATH"])["PATH"]
    task.set["PATH"] = os.pathsep.join(filter(None, (*programs, os.path.join(folder, "bin"), said)))
    task.set["VIRTUAL_ENV"] = folder
    task.unset += ["PYTHONHOME", VARIABLE]  # a job that submits this one may have sources itself
