"""Values for the secrets that a job names. They go to the supervisor and nowhere else.

A job here has what its own user has: `env` is a variable of its terminal, `file` a file that only
its owner can read; what is not there, and `command`, is looked for in the owner's list, as it is
for any other job. From the list a job gets what it names, wherever the owner says that it is from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.secret_names import is_name, wanted
from gpulayer.errors import PreparationError
from gpulayer.runtime.redaction import SHORTEST
from gpulayer.worker.secrets.book import Book
from gpulayer.worker.secrets.files import private_text
from gpulayer.worker.secrets.sources import Unusable
from gpulayer.worker.steps.plan import TaskPlan

PHASE = "secrets"


def resolve(task: TaskPlan) -> None:
    """Raises `secret-missing` or `secret-unsafe`, naming the secret and never a value."""
    secrets = task.spec.get("secrets") or ()
    if secrets and has_command(task.spec, task.secrets):
        task.watch.enters(PHASE)
    terminal: Mapping[str, str | None] = {}
    keys = [wanted(secret) for secret in secrets if _source(secret) == "env"]
    if keys and task.assignment.envelope_id is not None:
        terminal = task.lookup(task.assignment.envelope_id, keys)
    for secret in secrets:
        name = secret["name"]
        try:
            value = _value(task, secret, terminal)
            _require_long_enough(value)
        except Unusable as error:
            raise PreparationError(
                error.slug,
                f"the secret {name}{'' if task.here else f' on {task.worker}'} {error.what}",
                where=f"worker {task.worker}, phase {PHASE}",
                why=error.why,
                hint=error.hint,
                job_id=task.assignment.job_id,
            ) from None
        task.set[name] = value
        task.redact.append((name, value))


def has_command(spec: Mapping[str, Any], book: Book) -> bool:
    """Whether a command is run for one of them, which may take a while."""
    return book.has_command(map(wanted, spec.get("secrets") or ()))


def _value(task: TaskPlan, secret: Mapping[str, Any], terminal: Mapping[str, str | None]) -> str:
    key, source = wanted(secret), _source(secret)
    if task.here and source == "file":
        path = os.path.expanduser(key)
        return private_text(path, path)
    if value := terminal.get(key):
        return value

    def of_terminal(variable: str) -> str | None:
        envelope = task.assignment.envelope_id
        return None if envelope is None else task.lookup(envelope, [variable])[variable]

    mark = f"{task.folder}:{secret['name']}"
    given = task.secrets.value(key, terminal=of_terminal, is_wanted=task.watch.is_wanted, mark=mark)
    if given is None:
        raise _missing(task, key, source)
    return given


def _missing(task: TaskPlan, key: str, source: str) -> Unusable:
    if task.here and source == "env":
        where = f"{key} is not set in the terminal of this job"
        return Unusable(
            "secret-missing", f"has no value: {where}", hint=f"read -rs {key}; export {key}"
        )
    is_joined = is_name(key) and not task.here
    return Unusable(
        "secret-missing",
        f"has no value: no {key} is given there",
        "a worker gives by name what its owner allowed, and has a value for",
        f"gpulayer join --secret={key}" if is_joined else "gpulayer help secrets",
    )


def _require_long_enough(value: str) -> None:
    """A shorter one would stand in a log by chance, so it is not looked for there."""
    if len(os.fsencode(value)) < SHORTEST:
        raise Unusable(
            "secret-unsafe",
            "is too short to be kept out of the log",
            f"it has fewer than {SHORTEST} bytes",
            "gpulayer help secret-unsafe",
        )


def _source(secret: Mapping[str, Any]) -> str:
    return str(secret.get("source") or "env")
