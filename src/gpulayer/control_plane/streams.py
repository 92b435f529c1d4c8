"""Streams into running jobs: commands in their world, ways to their ports. What may be, and who is
told; the bytes are `api.meeting`'s.

    opened --> handed to the worker --> both sides there --> started --> ended

In memory: a stream ends with its plane. What is kept is the story in the job's record: who came in
with which command, and how it ended. The words of the command come from the worker, which has taken
values of the job's secrets out of them; what it prints is its visitor's own and kept nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any

from gpulayer.contracts import limits
from gpulayer.contracts.changes import Changes, NewEvent
from gpulayer.contracts.ids import TaskId
from gpulayer.contracts.messages import StreamOrder
from gpulayer.contracts.principals import Principal
from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import TERMINAL_JOB_STATES, TaskState
from gpulayer.control_plane import stream_rules as rules
from gpulayer.control_plane.lifecycle import gangs
from gpulayer.control_plane.ports import Ports, Reader, Tx, commit
from gpulayer.control_plane.selection import find_job
from gpulayer.control_plane.sessions import Sessions
from gpulayer.control_plane.stream_rules import CONNECT, MEET_SECONDS, STACKS, Stream, Wish
from gpulayer.control_plane.wakeups import job_topic, worker_topic
from gpulayer.errors import NotFoundError, RefusedError, UsageError


class Streams:
    """Thread-safe."""

    def __init__(self, ports: Ports, sessions: Sessions) -> None:
        self._ports = ports
        self._sessions = sessions
        self._lock = Lock()
        self._open: dict[str, Stream] = {}

    # --- clients ---------------------------------------------------------------------------

    def open(self, selector: str, stream_id: str, wish: Wish, by: Principal) -> dict[str, Any]:
        """What to join then, as JSON. The same id again is the same stream. Raises why not."""
        rules.require_sane(wish)
        with self._ports.store.read() as reader:
            job = find_job(reader, selector)
            known = self._open.get(stream_id)
            if known is not None and known.principal == by and known.order.job_id == job.id:
                return self._told(known, reader)
            task = self._visitable(reader, job, wish.node)
            self._require_reachable(job, task, wish)
            order = StreamOrder(
                stream_id,
                task.id,
                task.fence,
                job.id,
                wish.kind,
                wish.argv,
                wish.port,
                wish.terminal,
                wish.set or {},
            )
            now = self._ports.clock.monotonic()
            stream = Stream(stream_id, order, task.worker_id, by, wish, now)
            self._keep(stream)
            self._ports.wakeups.publish(worker_topic(task.worker_id))
            return self._told(stream, reader)

    def get(self, stream_id: str) -> Stream:
        stream = self._open.get(stream_id)
        if stream is None:
            raise NotFoundError(
                "job-not-found",
                "no stream has that id",
                why="it has ended, or the plane was started anew since it was opened",
                hint="gpulayer ps",
            )
        return stream

    # --- workers ---------------------------------------------------------------------------

    def orders(self, worker_id: str) -> list[StreamOrder]:
        """Those that it has not come for."""
        if not self._open:
            return []
        with self._lock:
            found = [s for s in self._open.values() if s.worker_id == worker_id]
        return [stream.order for stream in found if not stream.is_handed]

    # --- what happens to them ---------------------------------------------------------------

    def started(self, stream: Stream, words: Sequence[str]) -> Future[None]:
        """Its command runs, or its way is there: done once that is in the job's record."""
        stream.started = self._ports.clock.monotonic()
        if stream.wish.kind == CONNECT:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        kept = None if stream.wish.kind == STACKS else rules.kept_words(words)
        said = rules.said_of(stream.wish, words)
        return self._note(stream, stream.wish.kind, said, kept, None)

    def ended(self, stream: Stream, exit_code: int | None, why: str) -> None:
        """Twice-safe. `exit_code` None: nobody heard of it."""
        with self._lock:
            self._open.pop(stream.id, None)
            stream.is_handed = True
            if stream.told:
                return
            stream.told = True
        if stream.started is None or stream.wish.kind in (CONNECT, STACKS):
            return
        spent = self._ports.clock.monotonic() - stream.started
        how = why or ("" if exit_code is None else f"exit code {exit_code}")
        message = f"{how or 'ended'} after {spent:.1f} s"
        self._note(stream, f"{stream.wish.kind}_ended", message, None, exit_code)

    # --- inside ------------------------------------------------------------------------------

    def _keep(self, stream: Stream) -> None:
        with self._lock:
            late = stream.opened - 2 * MEET_SECONDS
            for old in [s for s in self._open.values() if s.started is None and s.opened < late]:
                del self._open[old.id]  # nobody came
            of_job = sum(s.order.job_id == stream.order.job_id for s in self._open.values())
            if of_job >= limits.STREAMS_PER_JOB:
                raise rules.too_many(stream.order.job_id, limits.STREAMS_PER_JOB)
            if len(self._open) >= limits.STREAMS_PER_PLANE:
                raise rules.too_many("this plane", limits.STREAMS_PER_PLANE)
            if stream.wish.kind == CONNECT:
                forward = self._open.get(stream.wish.forward)
                if forward is None or not rules.is_part(stream, forward):
                    raise UsageError("usage", "a connection belongs to a forward of one's own")
            if stream.id in self._open:
                raise UsageError("usage", "another stream has that id")
            self._open[stream.id] = stream

    def _visitable(self, reader: Reader, job: Job, node: int) -> Task:
        nodes = gangs.nodes_of(job)
        if not 0 <= node < nodes:
            raise UsageError(
                "usage",
                f"{job.id} has no node {node}",
                why=f"it has {nodes}, counted from 0" if nodes > 1 else "it is one process",
                hint=f"gpulayer status {job.id}",
                job_id=job.id,
            )
        if job.state in TERMINAL_JOB_STATES:
            hint = f"gpulayer logs {job.id}"
            raise rules.not_running(job, f"{job.id} has ended: {job.state}", "", hint)
        task = gangs.newest(reader.tasks(job.id)).get(node)
        if task is None or task.state is not TaskState.RUNNING:
            if task is None or task.state is not TaskState.ASSIGNED:
                why, hint = f"it is {job.state}", f"gpulayer why {job.id}"
            else:
                why = "it is being prepared" + (f": {task.phase}" if task.phase else "")
                hint = f"gpulayer events -f {job.id}"
            raise rules.not_running(job, f"{job.id} does not run yet", why, hint)
        return task

    def _require_reachable(self, job: Job, task: Task, wish: Wish) -> None:
        session = self._sessions.get(task.worker_id)
        now = self._ports.clock.monotonic()
        name = task.worker_id if session is None else session.worker.name
        if self._ports.settings.kind == "embedded":
            raise rules.unreachable(job, "jobs of a plane inside a program cannot be entered", "")
        if session is not None and session.is_far:
            why = f"its worker {name} speaks with another of the planes that share this database"
            raise rules.unreachable(job, f"{job.id} cannot be entered from this plane", why)
        if session is None or not self._sessions.is_online(session, now):
            silent = self._sessions.silent_seconds(task.worker_id, now)
            why = f"nothing was heard of it for {silent:.0f} s; the job goes on without the plane"
            raise rules.unreachable(job, f"the worker {name} does not answer", why)
        if not rules.can_enter(job, wish, session.capabilities):
            raise RefusedError(
                "version-mismatch",
                f"the worker {name} is too old for this",
                why=f"it is of version {session.capabilities.version or '?'}: upgrade it there",
                hint="pip install --upgrade gpulayer",
                job_id=job.id,
            )

    def _told(self, stream: Stream, reader: Reader) -> dict[str, Any]:
        worker = reader.worker(stream.worker_id)
        return {
            "stream": stream.id,
            "job": stream.order.job_id,
            "node": stream.wish.node,
            "worker": stream.worker_id if worker is None else worker.name,
        }

    def _note(
        self,
        stream: Stream,
        kind: str,
        message: str,
        words: list[str] | None,
        exit_code: int | None,
    ) -> Future[None]:
        now = self._ports.clock.now()
        data: dict[str, Any] = {"stream": stream.id, "by": rules.visitor_name(stream.principal)}
        data |= {"owner": stream.principal.owner, "node": stream.wish.node}
        if words is not None:
            data |= {"argv": words, "terminal": stream.wish.terminal is not None}
        if stream.wish.port:
            data["port"] = stream.wish.port
        if exit_code is not None:
            data["exit_code"] = exit_code
        said = f"{rules.visitor_name(stream.principal)}: {message}"

        def note(tx: Tx) -> None:
            job = tx.job(stream.order.job_id)  # type: ignore[arg-type]
            if job is not None:
                event = NewEvent(
                    job.id, kind, job.state, job.reason, now, said,
                    TaskId(stream.order.task_id), data,
                )  # fmt: skip
                commit(tx, Changes(events=(event,)))
                self._ports.wakeups.publish(job_topic(job.id))

        return self._ports.write(note)
