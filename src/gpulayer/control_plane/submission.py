"""Accepting jobs, asking for their end, trying them again.

A spec is validated here again, whoever sent it; what this version does not act on is refused by
name. A batch is accepted whole or not at all. The answer comes after the commit. What clients ask
for stands together, which makes this longer than others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from gpulayer.contracts.attempts import attempts_of
from gpulayer.contracts.calls import call_key, names_its_packages
from gpulayer.contracts.changes import Changes
from gpulayer.contracts.decision import Shape
from gpulayer.contracts.elements import grid_of
from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.ids import EnvelopeId, JobId, ShapeId
from gpulayer.contracts.images import require_pinned
from gpulayer.contracts.jobspec import JobSpec, spec_to_json, validate_spec
from gpulayer.contracts.named import digests_named
from gpulayer.contracts.notyet import not_yet
from gpulayer.contracts.records import Job
from gpulayer.contracts.states import LIVE_JOB_STATES, TERMINAL_JOB_STATES, JobState, Reason
from gpulayer.control_plane import elements
from gpulayer.control_plane.cached import recorded
from gpulayer.control_plane.dependencies import Awaited, held
from gpulayer.control_plane.envelopes import Envelopes
from gpulayer.control_plane.lifecycle import jobs as rules
from gpulayer.control_plane.ports import Places, Ports, Tx, commit, then
from gpulayer.control_plane.scheduler.shapes import shape_id, shape_of
from gpulayer.control_plane.selection import find_job
from gpulayer.control_plane.wakeups import ANY_JOB, job_topic, worker_topic
from gpulayer.errors import NotFoundError, RefusedError, UsageError

_SUFFIX = 8
_INTERPRETER = dict.fromkeys(("path", "version", "why"), "str | None")
_FUNCTION = {"sys_path": "tuple[str, ...] | None"}
_CODE = {"commit": "str", "dirty": "bool"}
_CALL = {"tree": "str", "world": "str"}
_ORIGIN = {
    **dict.fromkeys(("attach_id", "cwd", "host", "user", "argv_text"), "str | None"),
    **dict.fromkeys(("session", "parent_job"), "str | None"),
    **dict.fromkeys(("interpreter", "function", "code", "call"), "Mapping[str, Any] | None"),
    **dict.fromkeys(("visible_gpus", "data"), "tuple[str, ...] | None"),
}
_PARTS = {"interpreter": _INTERPRETER, "function": _FUNCTION, "code": _CODE, "call": _CALL}
_MODES = ("int", "term", "kill")


@dataclass(frozen=True, slots=True)
class Submission:
    """One job as a client asks for it."""

    spec: Mapping[str, Any]
    origin: Mapping[str, Any] = field(default_factory=dict)
    idempotency_key: str | None = None
    envelope_id: str | None = None
    owner: str = ""
    """`Principal.owner` of who asks."""
    refresh: bool = False
    """A cached one runs, whatever is recorded, and its result is recorded in that place."""


@dataclass(frozen=True, slots=True)
class _Form:
    """What jobs that are alike have in common, once it was found to be good."""

    spec: JobSpec
    body: Mapping[str, Any]
    origin: Mapping[str, Any]
    shape: Shape
    shape_id: ShapeId
    digest: str
    call: str | None
    """Its `calls.call_key`; None: it is not cached."""


_Forms = dict[tuple[object, ...], _Form]
_Accepted = tuple[Job, Shape]
"""A submission that may become a job: validated, without an id yet."""


class SubmissionDesk:
    """The use cases of clients that change something. Thread-safe."""

    def __init__(self, ports: Ports, envelopes: Envelopes, places: Places) -> None:
        self._ports = ports
        self._envelopes = envelopes
        self._places = places

    def submit(self, submissions: Sequence[Submission]) -> Future[list[Job]]:
        """All of them or none, in order. The same key with the same body is the same job."""
        settings = self._ports.settings
        if len(submissions) > settings.batch_jobs:
            raise RefusedError(
                "too-large",
                f"a batch has {len(submissions)} jobs; up to {settings.batch_jobs} are allowed",
                why=f"one request carries up to {settings.batch_jobs}",
            )
        now = self._ports.clock.now()
        forms: _Forms = {}
        accepted = [self._accept(submission, now, forms) for submission in submissions]
        calls = {job.call_key for job, _ in accepted} - {None}
        known = {call: found for call in calls if (found := recorded(self._ports, call))}
        given = [
            None if submission.refresh else known.get(job.call_key)
            for submission, (job, _) in zip(submissions, accepted, strict=True)
        ]

        def insert(tx: Tx) -> list[Job]:
            return self._insert(tx, accepted, given)

        return then(self._places.write(insert), lambda done: done[0])

    def retry(
        self,
        selector: str,
        *,
        origin: Mapping[str, Any] | None = None,
        envelope_id: str | None = None,
        idempotency_key: str | None = None,
        session: str | None = None,
        owner: str = "",
        spec: Mapping[str, Any] | None = None,
    ) -> Future[Job]:
        """A new job like an ended one. What the caller does not give is taken from the old one."""
        with self._ports.store.read() as reader:
            old = find_job(reader, selector, session)
        if old.state not in TERMINAL_JOB_STATES:
            raise RefusedError(
                "job-not-finished",
                f"job {old.id} is {old.state}; only an ended job can be tried again",
                job_id=old.id,
                hint=f"gpulayer wait {old.id}",
            )
        again = Submission(
            spec=old.spec if spec is None else spec,
            origin=old.origin if origin is None else origin,
            idempotency_key=idempotency_key,
            envelope_id=envelope_id or old.envelope_id,
            owner=owner,
        )
        accepted = [self._accept(again, self._ports.clock.now(), {}, retry_of=old.id)]
        written = self._places.write(lambda tx: self._insert(tx, accepted))
        return then(written, lambda done: done[0][0])

    def cancel(
        self, selectors: Iterable[str] | None, *, owner: str | None = None, **how: Any
    ) -> Future[list[Job]]:
        """At once while queued; else asked for, until the task has ended. Twice-safe, and all or
        none: every selector is known before one job is ended. None: all unfinished jobs, of
        `owner` where one is named; `last` is the owner's too. `how`: `mode` and `grace_seconds`.
        The answer has the jobs as they were before."""

        def chosen(tx: Tx) -> list[Job]:
            if selectors is not None:
                return [find_job(tx, selector, owner=owner) for selector in selectors]
            live = tx.jobs(states=LIVE_JOB_STATES)
            return [job for job in live if owner is None or job.owner == owner]

        return self._end(chosen, Reason.USER, **how)

    def cancel_session(
        self, session: str | None, reason: Reason = Reason.SHUTDOWN
    ) -> Future[list[Job]]:
        """All unfinished jobs that were submitted through one SDK session, which is ending; None:
        all of them, since the plane is."""

        def mine(tx: Tx) -> list[Job]:
            live = tx.jobs(states=LIVE_JOB_STATES)
            return [job for job in live if session in (None, job.origin.get("session"))]

        return self._end(mine, reason, grace_seconds=2.0)

    def _end(
        self,
        chosen: Callable[[Tx], list[Job]],
        reason: Reason,
        *,
        mode: str = "term",
        grace_seconds: float = 10.0,
    ) -> Future[list[Job]]:
        if mode not in _MODES:
            ways = ", ".join(_MODES)
            raise UsageError("usage", f"no way to cancel is called {mode!r}; there are {ways}")

        def ask(tx: Tx) -> tuple[list[Job], set[str]]:
            jobs = list({job.id: job for job in chosen(tx)}.values())
            topics = [self._cancel(tx, job, mode, float(grace_seconds), reason) for job in jobs]
            return jobs, set().union(*topics)

        def told(done: tuple[tuple[list[Job], set[str]], object]) -> list[Job]:
            (jobs, topics), _ = done
            self._ports.wakeups.publish(*topics)
            return jobs

        return then(self._places.write(ask), told)

    def _accept(
        self, submission: Submission, now: float, forms: _Forms, retry_of: JobId | None = None
    ) -> _Accepted:
        """`forms`: those of this batch so far. Jobs that are alike are judged once."""
        likeness = _likeness(submission)
        form = forms.get(likeness)
        if form is None:
            form = forms[likeness] = self._form(submission, is_again=retry_of is not None)
        key, most = submission.idempotency_key, self._ports.settings.key_characters
        if key is not None and not 0 < len(key) <= most:
            why = f"an idempotency key has 1 to {most} characters, not {len(key)}"
            raise UsageError("usage", why)
        if key is not None and submission.owner:
            key = f"{submission.owner}/{key}"  # nobody meets another's
        spec = form.spec
        most_attempts, causes = attempts_of(form.body)
        job = Job(
            id=JobId(""),
            seq=0,
            name=spec.name,
            spec=form.body,
            shape_id=form.shape_id,
            state=JobState.QUEUED,
            reason=Reason.SUBMITTED,
            priority=spec.priority,
            max_attempts=most_attempts,
            retry_on=causes,
            fail_if_unschedulable=spec.placement.on_unschedulable == "fail",
            submitted_at=now,
            retry_of=retry_of,
            envelope_id=EnvelopeId(submission.envelope_id) if submission.envelope_id else None,
            origin=form.origin,
            owner=submission.owner,
            idempotency_key=key,
            request_digest=form.digest if key is not None else None,
            elements=grid_of(form.body).size if spec.array is not None else None,
            call_key=form.call,
        )
        return job, form.shape

    def _form(self, submission: Submission, *, is_again: bool) -> _Form:
        """`is_again`: nobody has looked at what its call depends on, so it is not recorded."""
        spec = validate_spec(submission.spec)
        refuse_unbuilt(spec)
        require_pinned(spec.image)
        if submission.envelope_id:
            self._envelopes.use([submission.envelope_id], self._ports.clock.monotonic())
        body, origin = spec_to_json(spec), dict(fitted_origin(submission.origin))
        size, most = len(json.dumps(origin)), self._ports.settings.origin_bytes
        if size > most:
            why = f"the origin has {size} bytes; up to {most} are allowed"
            raise RefusedError("too-large", why)
        self._require_artifacts(body)
        call = None
        if spec.cache and not is_again:
            _require_named_packages(body, origin)
            call = call_key(body, origin, submission.owner)
        shape = shape_of(body, origin)
        return _Form(spec, body, origin, shape, shape_id(shape), _digest(body), call)

    def _require_artifacts(self, spec: Mapping[str, Any]) -> None:
        for digest in digests_named(spec):
            if not self._ports.artifacts.touch(digest):
                raise NotFoundError(
                    "artifact-not-found",
                    f"the job names artifact {digest[:12]}, which this plane does not have",
                    why="what a job needs is stored before the job is submitted",
                    hint="gpulayer put FILE",
                )

    def _insert(
        self, tx: Tx, accepted: Sequence[_Accepted], given: Sequence[Job | None] = ()
    ) -> list[Job]:
        """`given`: for each the job that has its result already, if any."""
        jobs: list[Job] = []
        limit = self._ports.settings.unfinished_jobs
        room = limit - tx.unfinished()
        for (asked, shape), done in zip_longest(accepted, given):
            key = asked.idempotency_key
            known = tx.job_by_key(key) if key else None
            if known is not None:
                jobs.append(_same(known, asked))
                continue
            if done is not None and tx.job(done.id) is not None:
                jobs.append(done)
                continue
            room -= 1
            if room < 0:
                full = f"the queue is at its limit of {limit} unfinished jobs"
                raise RefusedError("plane-full", full, hint="gpulayer ps")
            job = dataclasses.replace(asked, id=self._new_id(tx, asked.name))
            tx.put_shape(job.shape_id, shape)
            awaited: Awaited = {}
            if job.spec.get("after"):
                job, awaited = held(tx, job)
            changes = Changes()
            if job.elements is not None:
                job, changes = elements.begun(tx, job)
            commit(tx, rules.submitted(job) + changes)
            tx.put_awaits(job.id, awaited.items())
            jobs.append(job)
        return jobs

    def _new_id(self, tx: Tx, name: str) -> JobId:
        while True:
            job_id = JobId(f"{name}-{self._ports.ids.token(_SUFFIX)}")
            if tx.job(job_id) is None:
                return job_id

    def _cancel(
        self, tx: Tx, job: Job, mode: str, grace_seconds: float, reason: Reason
    ) -> set[str]:
        """Whom it concerns."""
        now = self._ports.clock.now()
        changes = elements.cancelled(tx, job, mode, grace_seconds, reason, now)
        if not changes:
            return set()
        commit(tx, changes)
        held = () if job.state is JobState.QUEUED else tx.live_tasks(job_id=job.id)
        workers = {worker_topic(task.worker_id) for task in held}
        return workers | {job_topic(job.id), ANY_JOB}


def fitted_origin(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is read of an origin holds what it should. UsageError where it does not."""
    fitted("the origin", given, _ORIGIN)
    for name, kinds in _PARTS.items():
        fitted(f"the origin's {name}", given.get(name) or {}, kinds)
    return given


def refuse_unbuilt(spec: JobSpec) -> None:
    """Fields of the contract that this version does not act on, refused by name."""
    problems = not_yet(spec)
    if problems:
        fields = [problem.field for problem in problems]
        raise RefusedError(
            "not-yet",
            f"this version does not act on {', '.join(fields)} yet",
            why="the contract has it, and nothing of a job is silently ignored: leave it out",
            hint="gpulayer help not-yet",
            details={"fields": fields},
        )


def _require_named_packages(spec: Mapping[str, Any], origin: Mapping[str, Any]) -> None:
    if not names_its_packages(spec, origin):
        raise UsageError(
            "usage",
            "a cached job elsewhere names what is installed for it: -r FILE, or --image NAME",
            why="what a worker's own Python has may change, and the result with it",
            hint="gpulayer help requirements",
        )


def _likeness(submission: Submission) -> tuple[object, ...]:
    """Of two submissions of one batch: equal where they differ in their keys at most."""
    try:
        text = json.dumps(submission.spec)
    except (TypeError, ValueError, RecursionError):
        text = f"{id(submission.spec)}"  # validation says what is wrong with it
    return text, id(submission.origin), submission.envelope_id, submission.owner


def _same(known: Job, asked: Job) -> Job:
    if known.request_digest == asked.request_digest:
        return known
    raise RefusedError(
        "idempotency-conflict",
        f"the key {asked.idempotency_key!r} belongs to job {known.id}, which is another one",
        job_id=known.id,
        why="a key stands for one job: use a new key for a new job",
        hint=f"gpulayer status {known.id}",
    )


def _digest(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
