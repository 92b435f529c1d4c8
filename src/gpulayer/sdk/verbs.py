"""`gl.submit`, `gl.run`, `gl.launch`, `gl.plan`, `gl.job`, `gl.env_*`: the client's words on the
present plane."""

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
    launcher: str | None = None,
    args: Sequence[Any] | Mapping[str, Any] = (),
    **options: Any,
) -> Job:
    """Queue a script or a function on several processes; see `Client.launch`."""
    return current(options.get("on")).launch(
        program,
        nodes=nodes,
        procs_per_node=procs_per_node,
        launcher=launcher,
        args=args,
        **options,
    )


def plan(work: Sequence[str] | Mapping[str, Any], /, **options: Any) -> dict[str, Any]:
    """What would happen, and why; see `Client.plan`."""
    return current(options.get("on")).plan(work, **options)


def job(selector: str) -> Job:
    """A job by id, unique prefix, name or `last`."""
    return current().job(selector)


def env_prepare(
    requirements: str | Sequence[str], /, *, timeout: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """Make an environment on every worker that matches; see `Client.env_prepare`."""
    client = current(options.get("on"))
    return client.env_prepare(requirements, timeout=timeout, **options)


def env_ls(*, on: str | None = None) -> list[dict[str, Any]]:
    """The environments of all workers, or of one; see `Client.env_ls`."""
    return current().env_ls(on=on)


def env_rm(*keys: str, unused: bool = False, on: str | None = None) -> list[dict[str, Any]]:
    """Remove environments by their keys, or all that no job uses; see `Client.env_rm`."""
    return current().env_rm(*keys, unused=unused, on=on)
