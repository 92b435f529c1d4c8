"""`ControlPlane`: one method per verb, no rule inside. Any rule is two hops from here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from gpulayer.clock import Clock, Ids
from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.messages import (
    Acquire,
    Acquired,
    CheckpointKept,
    ErrandDone,
    KeepCheckpoint,
    KeepMetrics,
    MetricsKept,
    Register,
    Registered,
    Report,
    ReportReply,
)
from gpulayer.contracts.principals import AuditEvent, Credential, Presented, Principal
from gpulayer.contracts.records import Job, Task, Worker
from gpulayer.contracts.states import Reason
from gpulayer.control_plane.access import Access
from gpulayer.control_plane.assignments import Assignments
from gpulayer.control_plane.checkpoints import Checkpoints
from gpulayer.control_plane.dispatch import Dispatcher, Pass
from gpulayer.control_plane.election import Election
from gpulayer.control_plane.element_pages import Wanted
from gpulayer.control_plane.enrolment import Enrolment, Enrolments, Grant
from gpulayer.control_plane.envelopes import Envelopes
from gpulayer.control_plane.errands import Asked, Errands
from gpulayer.control_plane.foresight import Foresight
from gpulayer.control_plane.housekeeping import Collected, Housekeeping
from gpulayer.control_plane.log_parts import LogPart
from gpulayer.control_plane.meters import Measures, Meters, measures
from gpulayer.control_plane.metrics import Metrics
from gpulayer.control_plane.ports import Artifacts, Logs, Ports, Store, then
from gpulayer.control_plane.queries import Queries
from gpulayer.control_plane.reconcile import Reconciler
from gpulayer.control_plane.registry import Registry
from gpulayer.control_plane.reports import Reports
from gpulayer.control_plane.sessions import Sessions
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.snapshots import Snapshots
from gpulayer.control_plane.streams import Streams
from gpulayer.control_plane.submission import Submission, SubmissionDesk
from gpulayer.control_plane.wakeups import QUEUE, Wakeups


class ControlPlane:
    """The plane over its ports. Thread-safe, synchronous: writes come back as futures that are
    done once they are committed; reads answer at once. Nothing in here runs by itself: whoever
    owns the plane calls `reconcile` every `settings.tick_seconds`.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        wakeups: Wakeups,
        logs: Logs,
        artifacts: Artifacts,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.wakeups = wakeups
        self._clock = clock
        ports = Ports(store, clock, ids, wakeups, logs, artifacts, self.settings)
        sessions = self._sessions = Sessions(clock.monotonic(), self.settings)
        self._election = Election(ports)
        envelopes = Envelopes()
        self._ports, self._meters = ports, Meters()
        snapshots = Snapshots(ports, sessions)
        self._dispatcher = Dispatcher(ports, sessions, snapshots, self._election, self._meters)
        dispatch: Callable[[], None] = self._dispatcher.request
        self._desk = SubmissionDesk(ports, envelopes, self._dispatcher)
        self._registry = Registry(ports, sessions, envelopes, dispatch)
        self._checkpoints = Checkpoints(ports)
        self._metrics = Metrics(ports)
        self.streams = Streams(ports, sessions)
        self._errands = Errands(ports, sessions)
        self._assignments = Assignments(ports, sessions, self.streams, self._errands)
        self._reports = Reports(ports, sessions, envelopes, self._dispatcher)
        self._reconciler = Reconciler(ports, sessions, envelopes, dispatch, self._election)
        self._queries = Queries(ports, sessions, snapshots)
        self._foresight = Foresight(ports, snapshots)
        self._housekeeping = Housekeeping(ports)
        self._access = Access(ports, sessions, dispatch)
        self._enrolments = Enrolments(ports, self._access.changed)

    # --- clients: acting -------------------------------------------------------------------

    def submit(self, submissions: Sequence[Submission]) -> Future[list[Job]]:
        return self._desk.submit(submissions)

    def cancel(self, selectors: str | Sequence[str] | None, **how: Any) -> Future[list[Job]]:
        """One job, many, or all: `mode`, `grace_seconds`, `owner`; see `SubmissionDesk.cancel`."""
        named = [selectors] if isinstance(selectors, str) else selectors
        return self._desk.cancel(named, **how)

    def cancel_session(self, session: str) -> Future[list[Job]]:
        return self._desk.cancel_session(session, Reason.SHUTDOWN)

    def cancel_all(self) -> Future[list[Job]]:
        return self._desk.cancel_session(None, Reason.SHUTDOWN)

    def retry(self, selector: str, **how: Any) -> Future[Job]:
        """`origin`, `envelope_id`, `idempotency_key`, `session`; see `SubmissionDesk.retry`."""
        return self._desk.retry(selector, **how)

    # --- clients: looking ------------------------------------------------------------------

    def plan(self, spec: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, Any]:
        return self._foresight.plan(spec, origin)

    def find(self, selector: str, session: str | None = None, owner: str | None = None) -> Job:
        return self._queries.find(selector, session, owner)

    def job(self, selector: str, session: str | None = None) -> dict[str, Any]:
        return self._queries.job(selector, session)

    def jobs(
        self,
        *,
        ended: bool = False,
        name: str | None = None,
        states: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        return self._queries.jobs(ended=ended, name=name, states=states, limit=limit)

    def events(self, selector: str, after: int = 0) -> list[dict[str, Any]]:
        return self._queries.events(selector, after)

    def decision(self, selector: str) -> dict[str, Any] | None:
        return self._queries.decision(selector)

    def outlook(self, selector: str) -> dict[str, Any] | None:
        return self._foresight.outlook(selector)

    def elements(self, selector: str, **wanted: Any) -> dict[str, Any]:
        """What is `wanted` of them: see `element_pages.Wanted`."""
        return self._queries.elements(selector, Wanted(**wanted))

    def log(
        self, selector: str, cursor: str = "", limit: int = 1 << 20, index: int | None = None
    ) -> LogPart:
        return self._queries.log(selector, cursor, limit, index)

    def metrics(self, selector: str, **how: Any) -> dict[str, Any]:
        """`name`, `index`, `whole`; see `Metrics.told`."""
        return self._metrics.told(selector, **how)

    def newest_metrics(self, selector: str) -> int:
        return self._metrics.newest(selector)

    def last_end(self) -> int:
        return self._queries.last_end()

    def ended(
        self, session: str, after: int, limit: int = 1_000
    ) -> tuple[list[dict[str, Any]], int]:
        return self._queries.ended(session, after, limit)

    def workers(self) -> list[dict[str, Any]]:
        return self._queries.workers()

    def counts(self) -> Mapping[str, int]:
        return self._queries.counts()

    # --- workers ---------------------------------------------------------------------------

    def register(self, message: Register) -> Future[Registered]:
        return self._registry.register(message)

    def report(self, message: Report) -> Future[ReportReply]:
        return self._reports.report(message)

    def acquire_now(self, message: Acquire) -> Future[Acquired]:
        return self._assignments.acquire_now(message)

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> Future[int]:
        return self._assignments.append_log(task_id, fence, offset, data)

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> Future[CheckpointKept]:
        return self._checkpoints.keep(task_id, message)

    def keep_metrics(self, task_id: str, message: KeepMetrics) -> Future[MetricsKept]:
        return self._metrics.keep(task_id, message)

    def drain(self, selector: str, draining: bool = True) -> Future[Worker]:
        return self._registry.drain(WorkerId(self._queries.worker_id(selector)), draining)

    def label(self, selector: str, labels: Mapping[str, str | None]) -> Future[Worker]:
        return self._registry.label(WorkerId(self._queries.worker_id(selector)), labels)

    def worker_id(self, selector: str) -> str:
        return self._queries.worker_id(selector)

    def task(self, task_id: str) -> Task | None:
        return self._queries.task(task_id)

    def tasks_of(self, worker_id: str) -> list[Task]:
        """Its live ones."""
        return self._queries.tasks_of(worker_id)

    def needs_artifact(self, worker_id: str, digest: str) -> bool:
        return self._queries.needs_artifact(worker_id, digest)

    # --- errands ---------------------------------------------------------------------------

    def send_errand(self, verb: str, body: Mapping[str, Any], only: Collection[str] = ()) -> Asked:
        return self._errands.send(verb, body, only)

    def errand_answers(self, asked: Asked, *, last: bool) -> list[dict[str, Any]] | None:
        return self._errands.answers(asked, last=last)

    def errand_done(self, message: ErrandDone) -> None:
        self._errands.done(message)

    # --- rights ----------------------------------------------------------------------------

    def authenticate(self, shown: Presented, *, renews: bool = False) -> Principal:
        return self._access.authenticate(shown, renews=renews)

    def require(self, principal: Principal) -> None:
        self._access.require(principal)

    def is_due(self, principal: Principal) -> bool:
        return self._access.is_due(principal)

    def enrol(self, wish: Enrolment) -> Future[Credential]:
        return self._enrolments.enrol(wish)

    def renew(self, principal: Principal, new: Presented) -> Future[Credential]:
        return self._enrolments.renew(principal, new)

    def invite(self, code: Presented, grant: Grant, by: Principal) -> Future[Credential]:
        return self._enrolments.invite(code, grant, by)

    def expect(self, instance: Presented, grant: Grant, by: Principal) -> Future[Credential]:
        return self._enrolments.expect(instance, grant, by)

    def mint(self, token: Presented, grant: Grant, by: Principal) -> Future[Credential]:
        return self._enrolments.mint(token, grant, by)

    def credential(self, credential_id: str) -> Credential:
        return self._access.credential(credential_id)

    def credentials(self) -> list[Credential]:
        return self._access.credentials()

    def audit(self, after: int = 0, limit: int = 1000) -> list[AuditEvent]:
        return self._access.audit(after, limit)

    def revoke(self, credential_id: str, by: Principal) -> Future[Credential]:
        return self._access.revoke(credential_id, by)

    def revoke_worker(self, worker_id: str, by: Principal) -> Future[list[str]]:
        return self._access.revoke_worker(WorkerId(worker_id), by)

    # --- the plane itself ------------------------------------------------------------------

    def dispatch(self) -> Future[Pass]:
        return self._dispatcher.run_once()

    def reconcile(self) -> Future[set[str]]:
        if self._election.stand():
            self._sessions.started = self._clock.monotonic()
            self._dispatcher.elected()
        return self._reconciler.run_once()

    def forget_old(self) -> Collected:
        """What `gc` does, as a plane does it by itself; of several, the one that schedules."""
        if not self._election.is_elected:
            return Collected()
        return self._housekeeping.collect(by_itself=True)

    def stop_forgetting(self) -> None:
        """Have a collection that runs end soon, and no other do much. Twice-safe."""
        self._housekeeping.stop()

    def gc(self, *, dry_run: bool = False, older_than: float | None = None) -> Collected:
        return self._housekeeping.collect(dry_run=dry_run, older_than=older_than)

    def probe(self) -> Future[int]:
        """How many jobs wait, read behind a write of nothing: done once both went well."""
        return then(self._ports.write(lambda tx: None), lambda _: self.counts()["queued"])

    def measures(self) -> Measures:
        """The figures of this moment. Costs a look at the queue's shapes."""
        workers = self.workers()
        with self._ports.store.read() as reader:
            return measures(reader, workers, self._meters, self._ports.store.commits)

    def hear(self, topics: Collection[str] | None) -> None:
        """What another plane of the same store has published; None: something may be missed."""
        self._access.doubt(topics)
        if topics is None:
            self.wakeups.wake_all()
        else:
            self.wakeups.wake(*topics)
        if topics is None or QUEUE in topics:
            self._dispatcher.asked_from_afar()

    def resign(self) -> None:
        """Leave the scheduling to another plane, if there is one. Twice-safe."""
        self._election.resign()

    def leave(self) -> None:
        """Tell workers that the plane is going, and wake whoever is parked. Twice-safe."""
        self._assignments.dismiss()
        self.wakeups.close()
