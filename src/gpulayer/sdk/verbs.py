"""`gl.submit`, `gl.run`, `gl.launch`, `gl.plan`, `gl.job`: the client's words on the present
plane."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpulayer.sdk.connect import current
from gpulayer.sdk.job import Job


def submit(work: Sequence[str] | Mapping[str, Any], /, **options: Any) -> Job:
    """Queue a command, workload or spec; see `Client.submit`."""
    return current(options.get("on")).submit(work, **options)


def run(command: Sequence[str], /, *, check: bool = False, **options: Any) -> Job:
    """Run a command to its end; see `Client.run`."""
    return current(options.get("on")).run(command, check=check, **options)


def launch(
    program: str | os.PathLike[str] | Callable[..., Any],
    /,
    *,
    nodes: int | None = None,
    procs_per_node: int | None = None,
    args: Sequence[Any] | Mapping[str, Any] = (),
    **options: Any,
) -> Job:
    """Queue a script or a function on several processes; see `Client.launch`."""
    return current(options.get("on")).launch(
        program, nodes=nodes, procs_per_node=procs_per_node, args=args, **options
    )


def plan(work: Sequence[str] | Mapping[str, Any], /, **options: Any) -> dict[str, Any]:
    """What would happen, and why; see `Client.plan`."""
    return current(options.get("on")).plan(work, **options)


def job(selector: str) -> Job:
    """A job by id, unique prefix, name or `last`."""
    return current().job(selector)
