"""A client of one plane: submits, looks, waits. The SDK's other words are thin over it. Longer than
others: one method for each of them."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from gpulayer.api import transfers
from gpulayer.api.paths import job_path
from gpulayer.clock import SystemIds
from gpulayer.errors import UsageError
from gpulayer.sdk import log_lines
from gpulayer.sdk.accepting import BATCH_JOBS, accepted
from gpulayer.sdk.client_env import Environments
from gpulayer.sdk.describe import ANYWHERE
from gpulayer.sdk.job import Job
from gpulayer.sdk.watcher import Watcher
from gpulayer.sdk.work import spec_for


class Transport(transfers.Client, Protocol):
    """A `Wire` or a `Direct`: one thread's way to the plane."""

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, park: float = 0.0
    ) -> Any: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """End it from another thread; see `Wire.abandon`."""


class Submitter(Protocol):
    """Where a submission comes from; see `sdk.origin`."""

    def origin(self, extra: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The origin of a submission made now, and the id of its envelope."""

    def again(
        self, origin: Mapping[str, Any], *, exact: bool = False
    ) -> tuple[dict[str, Any], str]:
        """The same for another try of a job of that origin, in its folder; `exact`: with its
        Python."""

    def confirm(self) -> None:
        """The submission is accepted: see that the job will find its envelope."""

    def forget(self) -> None:
        """Leave the connection to the process that forked this one."""

    def close(self) -> None: ...


class Client(Environments):
    """Talks to one plane. Any number of threads may share one client; close it when done."""

    def __init__(
        self, transport: Callable[[], Transport], submitter: Submitter, *, is_far: bool = False
    ) -> None:
        self.is_far = is_far
        """Whether its plane is a served one, so that jobs run in another world than this."""
        self._transport = transport
        self._submitter = submitter
        self._ids = SystemIds()
        self._begin()
        _clients.add(self)

    def _begin(self) -> None:
        self.session = self._ids.token(16)
        """Names this client's jobs among all."""
        self._local = threading.local()
        self._wires: weakref.WeakSet[Transport] = weakref.WeakSet()
        """Of all threads."""
        self._watcher = Watcher(self)

    def forget(self) -> None:
        """For a forked child: connections, locks and threads are its parent's, so begin anew."""
        self._submitter.forget()
        self._begin()

    def submit(self, command: Sequence[str] | Mapping[str, Any], /, **options: Any) -> Job:
        """Queue a command (a list of words), or a workload or spec as a mapping."""
        return self.submit_specs([spec_for(command, self.placed(options))], brings=options)[0]

    def placed(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options of a job with what `on` means here where it was not said."""
        return {**options, "on": options.get("on") or ANYWHERE} if self.is_far else options

    def submit_specs(
        self,
        specs: Sequence[Mapping[str, Any]],
        *,
        origin: Mapping[str, Any] | None = None,
        brings: Mapping[str, Any] | None = None,
    ) -> list[Job]:
        """Queue many jobs of one origin, in order. Each batch is accepted whole or not at all.
        `brings`: options whose `source` and `inputs` travel along, for all of them at once."""
        _require_imported()
        if any(spec.get("image") for spec in specs):
            from gpulayer.sdk.images import with_digests

            specs = with_digests(specs)
        self._wire()  # the supervisor is there once a plane is
        specs, origin = self._carried(specs, origin or {}, brings or {})
        made, envelope = self._submitter.origin(origin)
        made["session"] = self.session
        if any(spec.get("cache") for spec in specs):
            from gpulayer.sdk.calling import called

            made |= called(specs[0], made, is_far=self.is_far)
        anew = {"refresh": True} if (brings or {}).get("cache") == "refresh" else {}
        asked = [{"spec": spec, "idempotency_key": self._ids.token(26), **anew} for spec in specs]
        batches = (
            {"jobs": asked[at : at + BATCH_JOBS], "origin": made, "envelope_id": envelope}
            for at in range(0, len(asked), BATCH_JOBS)
        )
        return [Job(self, found) for found in accepted(self.call, batches, self._expect)]

    def _expect(self, reply: Mapping[str, Any]) -> None:
        fresh = [found["id"] for found in reply["jobs"] if not found.get("cached")]
        self._watcher.expect(fresh, reply["ends_after"])
        self._submitter.confirm()

    def _carried(
        self,
        specs: Sequence[Mapping[str, Any]],
        origin: Mapping[str, Any],
        brings: Mapping[str, Any],
    ) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]:
        """What a job of another machine needs of this one is sent before it."""
        source, inputs = brings.get("source"), brings.get("inputs") or ()
        if not specs or not (self.is_far or source or inputs):
            return specs, origin
        from gpulayer.sdk.packing import NONE, pack
        from gpulayer.sdk.places import Places

        packed = pack(
            specs[0],
            source=None if source is None and self.is_far else os.fspath(source or NONE),
            inputs=[os.fspath(one) for one in inputs],
            function=origin.get("function"),
            places=Places.find(),
            job=lambda selector: self._wire().call("GET", self.path(selector)),
        )
        packed.send(self._wire())
        is_elsewhere = self.is_far or "source" in packed.spec["workload"]
        if is_elsewhere and "function" in origin:
            origin = {**origin, "function": packed.function}
        return [packed.onto(spec) for spec in specs], origin

    def run(self, command: Sequence[str], /, *, check: bool = False, **options: Any) -> Job:
        """Run a command to its end, its output copied to ours; like `subprocess.run`.

        With `check`, a bad end raises. KeyboardInterrupt cancels the job.
        """
        job = self.submit(command, **{"on_unschedulable": "fail", **options})
        self.follow(job)
        if check:
            job.result()
        return job

    def follow(self, job: Job) -> None:
        """Copy its output to ours until it has ended, however. What is raised meanwhile, such as
        KeyboardInterrupt, cancels it."""
        try:
            for record in self.log_records(job.id, follow=True):
                sink = sys.stderr if record.stream in (0, 2) else sys.stdout
                sink.write(record.data.decode(errors="replace"))
                sink.flush()
            job.wait()
        except BaseException:
            job.cancel()
            raise

    def launch(
        self,
        program: str | os.PathLike[str] | Callable[..., Any],
        /,
        *,
        nodes: int | None = None,
        procs_per_node: int | None = None,
        launcher: str | None = None,
        args: Sequence[Any] | Mapping[str, Any] = (),
        **options: Any,
    ) -> Job:
        """Queue a script or a function on several processes, as torchrun starts them, or as
        GPUlayer does itself (`launcher="direct"`). The result of a function is what rank 0
        returned."""
        from gpulayer.sdk import launching

        work, origin = launching.described(program, args)
        workload = launching.workload_of(work, nodes, procs_per_node, launcher, options.get("gpus"))
        specs = [spec_for(workload, self.placed(options))]
        return self.submit_specs(specs, origin=origin, brings=options)[0]

    def plan(self, command: Sequence[str] | Mapping[str, Any], /, **options: Any) -> dict[str, Any]:
        """What would happen to the job, and why. Nothing is submitted."""
        self._wire()
        origin, _ = self._submitter.origin({})
        body = {"spec": spec_for(command, self.placed(options)), "origin": origin}
        return dict(self.call("POST", "/v1/plan", body))

    def retry(self, job: Job, *, exact: bool = False) -> Job:
        """An ended job again, as a new one: the world as it is now, in the old one's folder;
        `exact`: see `Job.retry`."""
        wire, old, beside = self._wire(), job.refresh(), {}
        if exact and old["finished_at"] is not None:
            from gpulayer.sdk.exact import exact_spec

            beside["spec"] = exact_spec(wire, old, is_here=not self.is_far)
        origin, envelope = self._submitter.again(old.get("origin") or {}, exact=exact)
        body = {
            **beside,
            "origin": {**origin, "session": self.session},
            "envelope_id": envelope,
            "idempotency_key": self._ids.token(26),
        }
        found = self.call("POST", self.path(job.id, "retry"), body)
        self._watcher.expect([found["id"]], 0)
        self._submitter.confirm()
        return Job(self, found)

    def job(self, selector: str) -> Job:
        """A job by id, unique prefix, name or `last`. Raises NotFoundError."""
        return Job(self, self.call("GET", self.path(selector)))

    def jobs(self, *, all: bool = False, limit: int = 1_000) -> list[Job]:  # noqa: A002
        """Jobs that wait or run, newest first; with `all` also those that have ended."""
        reply = self.call("GET", f"/v1/jobs?all={int(all)}&limit={limit}")
        return [Job(self, found) for found in reply["jobs"]]

    def workers(self) -> list[dict[str, Any]]:
        """Every worker: what it has, what it does."""
        return list(self.call("GET", "/v1/workers")["workers"])

    def log_records(
        self, job_id: str, *, follow: bool = False, index: int | None = None
    ) -> Iterator[Any]:
        """The log as `runtime.segments.Record`s."""
        query = {} if index is None else {"index": index}
        return log_lines.records(self._wire(), job_id, follow=follow, query=query)

    def log_lines(
        self,
        job_id: str,
        *,
        follow: bool = False,
        rank: int | None = None,
        index: int | None = None,
    ) -> Iterator[str]:
        """The log as lines of text."""
        found = self.log_records(job_id, follow=follow, index=index)
        return log_lines.lines(record for record in found if rank in (None, record.rank))

    def future_of(self, job: Job) -> Future[Any]:
        """A future that is resolved when the job has ended."""
        return self._watcher.watch(job)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, park: float = 0.0
    ) -> Any:
        """One exchange with the plane, in the calling thread."""
        return self._wire().call(method, path, body, park=park)

    @staticmethod
    def path(selector: str, rest: str = "", **query: Any) -> str:
        """`/v1/jobs/SELECTOR/rest?query`."""
        return job_path(selector, rest, **query)

    def close(self) -> None:
        """End the connections; who waits for a job is told so. Jobs go on. Safe to call twice."""
        self._watcher.close()
        self._submitter.close()
        for wire in list(self._wires):
            wire.abandon()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _wire(self) -> Transport:
        held: Transport | None = getattr(self._local, "wire", None)
        if held is None:
            held = self._local.wire = self._transport()
            self._wires.add(held)
        return held


def as_completed(jobs: Iterable[Job], timeout: float | None = None) -> Iterator[Job]:
    """The jobs in the order in which they end; as `concurrent.futures.as_completed`."""
    import concurrent.futures

    by_future = {job.future(): job for job in jobs}
    for future in concurrent.futures.as_completed(by_future, timeout):
        yield by_future[future]


def gather(*jobs: Job, return_exceptions: bool = False) -> list[Any]:
    """The results of all jobs, in the given order; as `asyncio.gather`, but for any thread."""
    for job in jobs:
        job.future()  # all are watched before the first is waited for
    if not return_exceptions:
        return [job.result() for job in jobs]
    return [job.exception() or job.result() for job in jobs]


def _require_imported() -> None:
    """Refuse what a job's own file submits while the job imports it; see `function_runner`."""
    if getattr(sys.modules.get("__main__"), "is_importing", False):
        raise UsageError(
            "usage",
            "the file of a job submits jobs while it is imported; "
            'put that under: if __name__ == "__main__":',
        )


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for client in list(_clients):
        client.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
