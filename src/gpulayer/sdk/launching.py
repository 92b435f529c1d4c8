"""What a distributed job is made from, for `gpulayer launch` and `gl.launch`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpulayer.contracts.durations import parse_gpus
from gpulayer.errors import NotFoundError, UsageError
from gpulayer.sdk.folder import working_folder


def script_of(script: str, folder: str) -> tuple[str, dict[str, Any]]:
    """The entrypoint of a script that was named in `folder`, and what its origin adds to it: where
    the script is, if it is not below the folder. Raises `file-not-found`."""
    path = os.path.join(folder, script)
    if not os.path.isfile(path):
        raise NotFoundError("file-not-found", f"{script} is not a file", hint="ls")
    relative = os.path.relpath(path, folder)
    if relative.startswith(os.pardir + os.sep):
        return os.path.basename(path), {"script": os.path.abspath(path)}
    return relative, {}


def workload_of(
    program: Mapping[str, Any],
    nodes: int | None,
    procs_per_node: int | None,
    launcher: str | None = None,
    gpus: Any = None,
) -> dict[str, Any]:
    """The workload of `program`, which names a script or a function; what was not said is left
    out. One process per node, or one for each of its GPUs."""
    procs = procs_per_node or (parse_gpus(str(gpus)).count if gpus else None)
    said = {"num_workers": nodes, "procs_per_worker": procs, "launcher": launcher, **program}
    set_fields = {key: value for key, value in said.items() if value not in (None, [], (), {})}
    return {"kind": "distributed", **set_fields}


def described(
    program: str | os.PathLike[str] | Callable[..., Any],
    args: Sequence[Any] | Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The program's part of a workload and of an origin. A function takes `args` by place, or by
    name from a mapping. Raises UsageError, NotFoundError."""
    if not callable(program):
        entrypoint, origin = script_of(os.fspath(program), working_folder())
        if isinstance(args, Mapping | str):
            raise UsageError("usage", "args of a script are a list of words")
        return {"entrypoint": entrypoint, "args": [str(word) for word in args]}, origin
    from gpulayer.sdk.entrypoint import entrypoint_of
    from gpulayer.sdk.values import written_inline

    found = entrypoint_of(getattr(program, "__wrapped__", program))
    how: dict[str, Any]
    if isinstance(args, Mapping):
        how = {"function_kwargs": written_inline((), args)[1]}
    else:
        how = {"function_args": written_inline(tuple(args), {})[0]}
    return {"function": found.name, **how}, {"function": found.origin()}
