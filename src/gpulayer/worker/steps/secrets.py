"""Values for the secrets that a job names. They go to the supervisor and nowhere else.

`env`: a variable of the job's terminal, or of the worker where there is no terminal. `file`: a
file that only its owner can read; one line break at its end is not part of the value.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from typing import Any

from gpulayer.errors import PreparationError
from gpulayer.runtime.redaction import SHORTEST
from gpulayer.worker.steps.plan import TaskPlan

VALUE_BYTES = 64 * 1024


def resolve(task: TaskPlan) -> None:
    """Raises `secret-missing` or `secret-unsafe`, naming the secret and never a value."""
    wanted = task.spec.get("secrets") or ()
    terminal: Mapping[str, str | None] = {}
    keys = [_key(secret) for secret in wanted if _source(secret) == "env"]
    if keys and task.assignment.envelope_id is not None:
        terminal = task.lookup(task.assignment.envelope_id, keys)
    for secret in wanted:
        if _source(secret) == "file":
            value = _from_file(task, secret)
        else:
            value = _from_environment(task, secret, terminal)
        _require_long_enough(task, secret["name"], value)
        task.set[secret["name"]] = value
        task.redact.append((secret["name"], value))


def _require_long_enough(task: TaskPlan, name: str, value: str) -> None:
    """A shorter one would stand in a log by chance, so it is not looked for there."""
    if len(os.fsencode(value)) < SHORTEST:
        raise PreparationError(
            "secret-unsafe",
            f"the secret {name} is too short to be kept out of the log",
            why=f"it has fewer than {SHORTEST} bytes",
            hint="gpulayer help secret-unsafe",
            job_id=task.assignment.job_id,
        )


def _source(secret: Mapping[str, Any]) -> str:
    return str(secret.get("source") or "env")


def _key(secret: Mapping[str, Any]) -> str:
    return str(secret.get("key") or secret["name"])


def _from_environment(
    task: TaskPlan, secret: Mapping[str, Any], terminal: Mapping[str, str | None]
) -> str:
    key = _key(secret)
    value = (terminal if task.here else task.environ).get(key)
    if not value:
        where = "the terminal of this job" if task.here else "the worker's environment"
        line = f"read -rs {key}; export {key}"
        raise PreparationError(
            "secret-missing",
            f"the secret {secret['name']} has no value: {key} is not set in {where}",
            why="" if task.here else "set it on that machine, where `gpulayer join` gives it on",
            hint=line if task.here else (line, "gpulayer join"),
            job_id=task.assignment.job_id,
        )
    return value


def _from_file(task: TaskPlan, secret: Mapping[str, Any]) -> str:
    path = os.path.expanduser(_key(secret))
    problem = (
        f"the secret {secret['name']} has no value: {path} cannot be read",
        f"the secret {secret['name']} is not private: {path} can be read by others",
    )
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise PreparationError(
            "secret-missing", problem[0], why=error.strerror or "", job_id=task.assignment.job_id
        ) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise PreparationError("secret-missing", problem[0], why="it is not a regular file")
        if found.st_mode & 0o077 or found.st_uid not in (os.geteuid(), 0):
            mend = f"chmod 600 {shlex.quote(path)}"
            raise PreparationError("secret-unsafe", problem[1], hint=mend)
        data = os.read(descriptor, VALUE_BYTES + 1)
    finally:
        os.close(descriptor)
    text = os.fsdecode(data[:-1] if data.endswith(b"\n") else data)
    if not text or "\0" in text or len(data) > VALUE_BYTES:
        raise PreparationError(
            "secret-missing",
            problem[0],
            why=f"it must hold 1 to {VALUE_BYTES} bytes of text",
            job_id=task.assignment.job_id,
        )
    return text
