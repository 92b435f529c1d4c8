"""What time does: leases and deadlines run out, retries become due, envelopes are let go.

Every second in a running plane, and by the same code wherever a plane is embedded. Safe twice,
and after a crash at any instant: what is measured is measured on the monotonic clock since this
plane began or first saw it, so nothing runs out early, and no jump of the wall clock matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future

from gpulayer.contracts.changes import Changes, JobUpdate
from gpulayer.contracts.ids import TaskId
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import LIVE_TASK_STATES, Reason, TaskState
from gpulayer.control_plane import elements
from gpulayer.control_plane.election import Election
from gpulayer.control_plane.endings import end_tasks
from gpulayer.control_plane.envelopes import Envelopes
from gpulayer.control_plane.lifecycle import element_ends, retry, tasks as rules
from gpulayer.control_plane.ports import Ports, Tx, commit, then
from gpulayer.control_plane.sessions import Sessions
from gpulayer.control_plane.wakeups import job_topic

_ENVELOPE_SECONDS = 5.0
_JUMP_SECONDS = 5.0


class Reconciler:
    """`run_once` is for one thread at a time."""

    def __init__(
        self,
        ports: Ports,
        sessions: Sessions,
        envelopes: Envelopes,
        dispatch: Callable[[], None],
        election: Election,
    ) -> None:
        self._ports = ports
        self._sessions = sessions
        self._envelopes = envelopes
        self._dispatch = dispatch
        self._election = election
        self._since: dict[tuple[str, TaskId], float] = {}
        """(running or cancelling, task) -> monotonic time at which this plane first saw it."""
        self._swept = float("-inf")
        self._clocks: tuple[float, float] | None = None
        """The wall clock and the other one at the last look."""

    def run_once(self) -> Future[set[str]]:
        """One look at everything that time may change. The topics that were woken."""

        now, instant = self._ports.clock.now(), self._ports.clock.monotonic()
        was_set_back = self._was_set_back(now, instant)
        sweeps_envelopes = instant - self._swept >= _ENVELOPE_SECONDS
        if sweeps_envelopes:
            self._swept = instant

        def sweep(tx: Tx) -> set[str]:
            if sweeps_envelopes:
                self._envelopes.sweep(tx.live_envelopes(), instant)
            if not self._election.is_mine(tx):
                return set()
            self._sessions.learn(tx, self._ports.clock)
            if self._ports.settings.plane:
                self._sessions.forget_but(tx.worker_ids())
            live = [(task, job) for task in tx.live_tasks() if (job := tx.job(task.job_id))]
            topics = end_tasks(tx, self._ports.ids, self._overdue(live, instant), now)
            for task, job in self._silent(live, instant):
                if not _still_lives(tx, task):
                    continue  # it has just ended with a node of its gang
                grace = self._ports.settings.disconnect_grace_seconds
                commit(tx, rules.disconnected(job, task, now, grace))
                topics.add(job_topic(job.id))
            if was_set_back:
                _shorten_delays(tx, now)
            if tx.queued_count() or tx.has_open_arrays():
                topics.add("")
            return topics

        def tell(topics: set[str]) -> set[str]:
            waiting = "" in topics
            topics.discard("")
            self._ports.wakeups.publish(*topics)
            if topics or waiting:
                self._dispatch()
            return topics

        return then(self._ports.write(sweep), tell)

    def _overdue(
        self, live: list[tuple[Task, Job]], instant: float
    ) -> Iterator[tuple[TaskId, Exit]]:
        settings = self._ports.settings
        known = self._since
        self._since = {}
        for task, job in live:
            silent = self._sessions.silent_seconds(task.worker_id, instant)
            if silent >= self._allowed_silence(task, job):
                why = f"{task.worker_id} was silent for {silent:.0f} s"
                heard = self._ports.clock.now() - silent
                yield task.id, rules.lost(Reason.WORKER_LOST, why, heard)
                continue
            if job.cancel_requested_at is not None:
                # Twice the grace: a ladder has up to three steps.
                limit = 2 * job.cancel_grace + 2 * settings.lease_seconds
                if self._age(known, "cancelling", task, instant) >= limit:
                    yield task.id, Exit("cancelled", Reason.USER, "its worker did not end it")
            timeout = job.spec.get("timeout_seconds") if task.last is None else None
            if timeout is not None and task.state is TaskState.RUNNING:
                limit = timeout + settings.grace_seconds + 2 * settings.lease_seconds
                if self._age(known, "running", task, instant) >= limit:
                    why = f"past its limit of {timeout:g} s; its worker did not end it"
                    yield task.id, Exit("timed_out", Reason.TIMEOUT, why)

    def _allowed_silence(self, task: Task, job: Job) -> float:
        """A task that could be given out again is, after one lease; losing another helps nobody."""
        settings = self._ports.settings
        is_element = job.elements is not None
        again = element_ends.may_go_again(job, task) if is_element else retry.may_go_again(job)
        if task.state is TaskState.ASSIGNED or again:
            return settings.lease_seconds
        if job.cancel_requested_at is not None:
            return settings.lease_seconds
        return settings.lease_seconds + settings.disconnect_grace_seconds

    def _silent(self, live: list[tuple[Task, Job]], instant: float) -> Iterator[tuple[Task, Job]]:
        for task, job in live:
            silent = self._sessions.silent_seconds(task.worker_id, instant)
            if (
                task.disconnected_since is None
                and self._ports.settings.lease_seconds <= silent
                and silent < self._allowed_silence(task, job)
            ):
                yield task, job

    def _age(
        self, known: dict[tuple[str, TaskId], float], what: str, task: Task, instant: float
    ) -> float:
        since = self._since[what, task.id] = known.get((what, task.id), instant)
        return instant - since

    def _was_set_back(self, now: float, instant: float) -> bool:
        """Whether the wall clock has fallen behind the other one since the last look, or may have
        while there was no plane."""
        last, self._clocks = self._clocks, (now, instant)
        if last is None:
            return True
        last_now, last_instant = last
        return now - last_now < instant - last_instant - _JUMP_SECONDS


def _still_lives(tx: Tx, task: Task) -> bool:
    now = tx.task(task.id)
    return now is not None and now.state in LIVE_TASK_STATES


def _shorten_delays(tx: Tx, now: float) -> None:
    """A wall clock that was set back must not keep a retry waiting."""
    for job in tx.delayed(now + retry.BACKOFF_CAP_SECONDS):
        update = JobUpdate(job.id, job.state, job.version, {"not_before": 0.0})
        commit(tx, Changes(job_updates=(update,)))
    elements.shorten_delays(tx, now + retry.BACKOFF_CAP_SECONDS)
