"""From a `start` request to what a child needs: environment, folder, argv, priorities.

A task is the object of `start`:

    task_id, fence, job_id, index, attempt, rank?    who it is; task_id never comes back
    argv, argv0?                                     argv[0] is looked up in the job's world
    envelope_id | environ                            its terminal's world, or a full environment
    attach_id                                        who watches, or null
    set, unset, cwd                                  on top of the envelope; cwd null = envelope's
    timeout_seconds, grace_seconds                   from the exec; between TERM and KILL
    redact                                           [[name, value], ...]
    stdin "attach" | "null" | path, unbuffered       of the watching client; a file's own path
    log_limit_bytes
    records                                          its standard output is log records
    warm                                             {preload, sys_path, in_place}: it may be forked
                                                     from a Python that imported these: `zygotes`
    outside                                          what ends a container of it: see `outside`
    pipes                                            [{path, stream, rank}] of ranks; `rank` is
                                                     then that of what the launcher says
"""

from __future__ import annotations

import os

from gpulayer.runtime import envelopes
from gpulayer.runtime.redaction import Redactor
from gpulayer.runtime.spawn import Launch, SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MARKER = "GPULAYER_FENCE"
"""In the environment of every process of a task: what a sweep without cgroups looks for."""

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}


def launch(task: dict[str, Any], envelope: dict[str, Any], extra: Mapping[str, str]) -> Launch:
    """Less the streams. `extra` are variables that go with these. SpawnError where it is no
    command; the task's `set` outranks `extra`."""
    block = envelopes.environment(
        envelope.get("environ") or [],
        unset=task.get("unset") or [],
        setting={**extra, **(task.get("set") or {}), MARKER: marker(task)},
        defaults=UNBUFFERED if task.get("unbuffered") else {},
    )
    argv = [os.fsencode(word) for word in task["argv"]]
    if not argv or any(b"\0" in word for word in (*argv, *block)):
        raise SpawnError("spawn-failed", "no command, or one with a zero byte in it")
    cwd = task.get("cwd")
    made = Launch(argv, block, os.fsencode(cwd or envelope.get("cwd") or "/"), envelope)
    made.has_container = bool(task.get("outside"))
    if task.get("argv0"):
        made.argv0 = os.fsencode(task["argv0"])
    if cwd is None and envelope.get("cwd_ino"):
        made.cwd_id = (envelope["cwd_dev"], envelope["cwd_ino"])
    return made


def marker(task: dict[str, Any]) -> str:
    """Unique on this machine: what carries it is this task's and nobody else's."""
    return f"{task['task_id']}:{task.get('fence')}:{task['home']}"


def redactor(task: dict[str, Any], *, midway: bool = False) -> Redactor | None:
    """For one stream of the task; None where there is nothing to hide."""
    secrets = [(name, value) for name, value in task.get("redact") or ()]
    return Redactor(secrets, midway=midway) if secrets else None


def redacted(task: dict[str, Any], text: str) -> str:
    """A whole text without the values of the task's secrets."""
    cleaner = redactor(task)
    if cleaner is None:
        return text
    data = cleaner.feed(text.encode("utf-8", "surrogatepass")) + cleaner.flush()
    return data.decode("utf-8", "surrogatepass")
