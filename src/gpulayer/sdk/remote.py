"""`@gl.remote`: a function that can also run as a job.

The function itself stays what it was: `f(x)` runs here and now. `f.remote(x)` waits for a job and
returns its value, `f.submit(x)` returns the job, `f.map(xs)` starts one job per item at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from gpulayer.errors import GPULayerError
from gpulayer.sdk.client import Client, as_completed
from gpulayer.sdk.connect import current
from gpulayer.sdk.describe import require_known, spec_of
from gpulayer.sdk.entrypoint import entrypoint_of
from gpulayer.sdk.job import Job, cancel_all
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

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it here, as if it were not decorated."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        said = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"<remote function {self._entrypoint.name}{said}>"

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it as a job, wait, and return its value. Raises what the job raised; whatever else
        ends the wait, such as KeyboardInterrupt, cancels the job."""
        job = self._submit([(args, kwargs)], fail_if_unschedulable=True)[0]
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
        return self._submit([(args, kwargs)])[0]

    def map(self, *iterables: Any, return_exceptions: bool = False) -> Map:
        """One job per item, all submitted before this returns. As `map`, it ends with the
        shortest iterable."""
        calls: list[Call] = [(args, {}) for args in zip(*iterables, strict=False)]
        jobs = self._submit(calls) if calls else []
        return Map(jobs, return_exceptions=return_exceptions)

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

    def _submit(
        self,
        calls: Sequence[Call],
        *,
        fail_if_unschedulable: bool = False,
    ) -> list[Job]:
        options = self._options
        if fail_if_unschedulable and "on_unschedulable" not in options:
            options = {**options, "on_unschedulable": "fail"}
        client: Client = current(options.get("on"))
        options = dict(client.placed(options))
        with Arguments(client._wire) as arguments:
            specs = [self._spec(args, kwargs, options, arguments) for args, kwargs in calls]
            arguments.flush()
        origin = {"function": self._entrypoint.origin()}
        return client.submit_specs(specs, origin=origin, brings=options)

    def _spec(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
        arguments: Arguments,
    ) -> dict[str, Any]:
        workload: dict[str, Any] = {"kind": "function", "entrypoint": self._entrypoint.name}
        written, named, inputs = arguments.write(args, kwargs)
        if written:
            workload["args"] = written
        if named:
            workload["kwargs"] = named
        spec = spec_of(workload, options)
        return {**spec, "inputs": inputs} if inputs else spec


class Map:
    """The jobs of one `map`, in the order of the items. Iterating gives their values in order and
    raises where a job failed; with `return_exceptions` the exception takes the value's place."""

    def __init__(self, jobs: Sequence[Job], *, return_exceptions: bool = False) -> None:
        self.jobs = list(jobs)
        self._return_exceptions = return_exceptions

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Any]:
        for job in self.jobs:
            job.future()  # all are watched before the first is waited for
        for job in self.jobs:
            if self._return_exceptions:
                error = job.exception()
                yield error if error is not None else job.result()
            else:
                yield job.result()

    def failed(self) -> list[Job]:
        """The jobs that did not succeed, once all have ended."""
        return [job for job in self.jobs if job.exception() is not None]

    def resume(self) -> Map:
        """Give the failed items out again, as new jobs in their places. Returns itself."""
        places = {job.id: place for place, job in enumerate(self.jobs)}
        for job in self.failed():
            self.jobs[places[job.id]] = job.retry()
        return self

    def cancel(self) -> None:
        """Ask for the end of every job that has not ended."""
        cancel_all(self.jobs)

    def as_completed(self) -> Iterator[Job]:
        """The jobs in the order in which they end."""
        return as_completed(self.jobs)


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
