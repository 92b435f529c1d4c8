"""`@gl.remote`: a function that can also run as a job.

The function itself stays what it was: `f(x)` runs here and now. `f.remote(x)` waits for a job and
returns its value, `f.submit(x)` returns the job, `f.map(xs)` makes one job of many items.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from gpulayer.errors import GPULayerError, UsageError
from gpulayer.runtime.values import initializer as first
from gpulayer.sdk.calls import written as calls_of_map
from gpulayer.sdk.client import Client
from gpulayer.sdk.connect import current
from gpulayer.sdk.describe import require_known, spec_of
from gpulayer.sdk.entrypoint import entrypoint_of
from gpulayer.sdk.job import Job
from gpulayer.sdk.mapped import Map
from gpulayer.sdk.values import Arguments

P = ParamSpec("P")
R = TypeVar("R")
Call = tuple[tuple[Any, ...], dict[str, Any]]


class RemoteFunction(Generic[P, R]):
    """A function and the options with which it becomes a job. Made by `remote`."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        require_known(options)
        functools.update_wrapper(self, function)
        self._entrypoint = entrypoint_of(function)
        self._function = function
        self._options = options
        self._first: list[Any] = []
        """Before the arguments of each call; see `runtime.values.first`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it here, as if it were not decorated."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        said = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"<remote function {self._entrypoint.name}{said}>"

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it as a job, wait, and return its value. Raises what the job raised; whatever else
        ends the wait, such as KeyboardInterrupt, cancels the job."""
        job = self._submit((args, kwargs), fail_if_unschedulable=True)
        try:
            value: R = job.result()
        except GPULayerError:
            raise
        except BaseException:
            job.cancel()
            raise
        return value

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Queue it as a job."""
        return self._submit((args, kwargs))

    def map(
        self,
        *iterables: Any,
        in_order: bool = True,
        return_exceptions: bool = False,
        max_parallel: int | None = None,
        max_failures: int | None = None,
        progress: bool | None = None,
    ) -> Map:
        """One job of an element for each item, submitted before this returns. As `map`, it ends
        with the shortest iterable, and takes one item of each at a time.

        `max_parallel`: how many may run at one time. `max_failures`: more of them end the job.
        The others say how the results are read: see `Map`. Raises UsageError with the number of
        the first item that cannot travel; nothing is then submitted.
        """
        limits = {"max_parallel": max_parallel, "max_failures": max_failures}
        job, size = self._submit_array(
            zip(*iterables, strict=False), {k: v for k, v in limits.items() if v is not None}
        )
        return Map(
            [job] if job else [],
            size=size,
            in_order=in_order,
            return_exceptions=return_exceptions,
            progress=progress,
        )

    def options(self, **options: Any) -> RemoteFunction[P, R]:
        """The same function with other options; those not named stay."""
        return RemoteFunction(self._function, {**self._options, **options})

    def spec(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The job spec of one call, for `gl.plan` and `gl.submit`."""
        client = current(self._options.get("on"))
        with Arguments(client._wire) as arguments:
            spec = self._spec(args, kwargs, client.placed(self._options), arguments)
            arguments.flush()
        return spec

    def _submit(self, call: Call, *, fail_if_unschedulable: bool = False) -> Job:
        return self._prepared(call, fail_if_unschedulable=fail_if_unschedulable)()

    def _prepared(self, call: Call, *, fail_if_unschedulable: bool = False) -> Callable[[], Job]:
        """The call as it is now, its large values sent; what is returned submits it."""
        client, options = self._settled(fail_if_unschedulable=fail_if_unschedulable)
        with Arguments(client._wire) as arguments:
            spec = self._spec(*call, options, arguments)
            arguments.flush()
        return lambda: self._accepted(client, spec, options)

    def _after(self, initializer: Callable[..., Any], wires: list[Any]) -> RemoteFunction[P, R]:
        """The same function, before the first call of which each process calls `initializer`."""
        if isinstance(initializer, RemoteFunction):
            initializer = initializer._function
        found = entrypoint_of(initializer)
        if (
            found.source
            or self._entrypoint.source
            or found.file not in (None, self._entrypoint.file)
        ):
            raise UsageError(
                "function-not-importable",
                f"the initializer '{found.name}' cannot be imported where {self!r} would run",
                why="of a script, it is one for functions of that script alone",
                hint="gpulayer help function-not-importable",
            )
        name = f"{found.module or found.name.partition(':')[0]}:{initializer.__name__}"
        made = self.options()
        made._first = [first(name, wires)]
        return made

    def _submit_array(
        self, calls: Iterable[tuple[Any, ...]], limits: Mapping[str, int]
    ) -> tuple[Job | None, int]:
        """The array and how many elements it has; no job where there is nothing to do."""
        if "array" in self._options:
            raise UsageError(
                "usage", f"{self!r} has an array already: its items are those of the map"
            )
        client, options = self._settled(fail_if_unschedulable=True)
        with Arguments(client._wire) as arguments:
            given = calls_of_map(calls, arguments)
            if not given.count:
                return None, 0
            workload = self._workload(given.args, {})
            spec = spec_of(workload, {**options, "array": {**given.array, **limits}})
            if given.inputs:
                spec["inputs"] = given.inputs
            arguments.flush()
        return self._accepted(client, spec, options), given.count

    def _settled(self, *, fail_if_unschedulable: bool) -> tuple[Client, dict[str, Any]]:
        """The plane that the options mean, and what they mean there."""
        options = self._options
        if fail_if_unschedulable and "on_unschedulable" not in options:
            options = {**options, "on_unschedulable": "fail"}
        client: Client = current(options.get("on"))
        return client, dict(client.placed(options))

    def _accepted(self, client: Client, spec: dict[str, Any], options: Mapping[str, Any]) -> Job:
        origin = {"function": self._entrypoint.origin()}
        return client.submit_specs([spec], origin=origin, brings=options)[0]

    def _spec(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
        arguments: Arguments,
    ) -> dict[str, Any]:
        written, named, inputs = arguments.write(args, kwargs)
        spec = spec_of(self._workload(written, named), options)
        return {**spec, "inputs": inputs} if inputs else spec

    def _workload(self, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = {"args": [*self._first, *args], "kwargs": kwargs}
        return {
            "kind": "function",
            "entrypoint": self._entrypoint.name,
            **{name: value for name, value in given.items() if value},
        }


@overload
def remote(function: Callable[P, R], /) -> RemoteFunction[P, R]: ...
@overload
def remote(**options: Any) -> Callable[[Callable[P, R]], RemoteFunction[P, R]]: ...


def remote(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function one that can also run as a job.

    `@gl.remote` or `@gl.remote(gpus=1, memory="16G", timeout="2h", retries=2, ...)`; the options
    are those of `gpulayer run`. Raises UsageError where it is written, when the function cannot
    be imported by name or an option is not known.
    """
    if function is not None:
        return RemoteFunction(function, options)
    return lambda decorated: RemoteFunction(decorated, options)
