"""The table of jobs: the queue, the selectors, the guarded update."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpulayer.contracts.changes import JobUpdate
from gpulayer.contracts.decision import Pending
from gpulayer.contracts.ids import PREPARES, EnvelopeId, JobId, ShapeId
from gpulayer.contracts.records import Job
from gpulayer.contracts.states import TERMINAL_JOB_STATES, JobState, Reason
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import (
    FLAG,
    JSON,
    JSON_TUPLE,
    NO_LIMIT,
    TEXT,
    Table,
    as_enum,
    plain_text,
)


def _of_origin(field: str) -> Callable[[Job], str | None]:
    def take(job: Job) -> str | None:
        value = job.origin.get(field)
        return plain_text(value) if isinstance(value, str) else None

    return take


JOBS = Table(
    "jobs",
    Job,
    codecs={
        "name": TEXT,
        "spec": JSON,
        "state": as_enum(JobState),
        "reason": as_enum(Reason),
        "message": TEXT,
        "cancel_reason": as_enum(Reason),
        "retry_on": JSON_TUPLE,
        "fail_if_unschedulable": FLAG,
        "origin": JSON,
        "owner": TEXT,
    },
    given_by_store=("seq",),
    derived={"session": _of_origin("session"), "parent": _of_origin("parent_job")},
)

RECENT = 10_000
"""How far back `last` looks for a job of one session."""

_SELECT = f"SELECT {JOBS.columns} FROM jobs"
_BY_ID = f"{_SELECT} WHERE id = ?"
_STATE = "SELECT state, version FROM jobs WHERE id = ?"
_BY_KEY = f"{_SELECT} WHERE idempotency_key = ?"
_BY_CALL = f"{_SELECT} WHERE call_key = ? AND state = 'succeeded' ORDER BY seq DESC LIMIT 1"
_BY_PREFIX = f"{_SELECT} WHERE id >= ? AND id < ? ORDER BY seq DESC LIMIT ?"
_BY_SESSION = f"""
{_SELECT} WHERE seq > (SELECT max(seq) FROM jobs) - ?
AND session = ? ORDER BY seq DESC LIMIT 1"""
_BY_OWNER = f"""
{_SELECT} WHERE seq > (SELECT max(seq) FROM jobs) - ?
AND owner = ? AND coalesce(session, '') <> ? ORDER BY seq DESC LIMIT 1"""
_NEWEST = f"""
{_SELECT} WHERE seq > 0 AND coalesce(session, '') <> ? ORDER BY seq DESC LIMIT 1"""
_DELAYED = f"{_SELECT} WHERE state = 'queued' AND not_before > ? ORDER BY not_before, seq"
_ENDED = (
    "SELECT id FROM jobs WHERE finished_at IS NOT NULL AND finished_at < ?"
    " ORDER BY finished_at, seq LIMIT ?"
)
_ENVELOPES = (
    "SELECT DISTINCT envelope_id FROM jobs WHERE finished_at IS NULL AND envelope_id IS NOT NULL"
)
_COUNTS = "SELECT state, n FROM job_counts"
_COUNT_QUEUED = "SELECT n FROM job_counts WHERE state = 'queued'"
_QUEUED_BY_SHAPE = (
    "SELECT shape_id, count(*) FROM jobs WHERE state = 'queued'"
    " GROUP BY shape_id ORDER BY 2 DESC, 1 LIMIT ?"
)
_LENDERS = "SELECT DISTINCT parent FROM jobs WHERE finished_at IS NULL AND parent IS NOT NULL"
_COUNT_UNFINISHED = (
    "SELECT sum(n) FROM job_counts"
    " WHERE state IN ('queued', 'provisioning', 'scheduled', 'running')"
)
# Steps from shape to shape along the index of the queue, without reading the jobs between.
_QUEUED_SHAPES = """
WITH RECURSIVE shape (id) AS (
    SELECT min(shape_id) FROM jobs WHERE state = 'queued'
    UNION ALL
    SELECT (SELECT min(shape_id) FROM jobs WHERE state = 'queued' AND shape_id > shape.id)
    FROM shape WHERE shape.id IS NOT NULL
)
SELECT id FROM shape WHERE id IS NOT NULL"""
_HEADS = (
    "SELECT id, shape_id, priority, seq, fail_if_unschedulable, elements, submitted_at, not_before"
    " FROM jobs"
    " WHERE state = 'queued' AND shape_id = ? AND not_before <= ? AND reason <> 'dependency'"
    " ORDER BY priority DESC, seq LIMIT ?"
)
_DELETE = "DELETE FROM jobs WHERE id = ? AND finished_at IS NOT NULL RETURNING state"
_TALLY = "UPDATE job_counts SET n = n + ? WHERE state = ?"


class JobReads(Queries):
    def job(self, job_id: JobId) -> Job | None:
        row = self._one(_BY_ID, job_id)
        return JOBS.record(row) if row is not None else None

    def job_by_key(self, idempotency_key: str) -> Job | None:
        """The one job of that key. Compare `request_digest`: another one is a conflict."""
        row = self._one(_BY_KEY, idempotency_key)
        return JOBS.record(row) if row is not None else None

    def job_by_call(self, call_key: str) -> Job | None:
        """The newest job of that call that has succeeded."""
        row = self._one(_BY_CALL, call_key)
        return JOBS.record(row) if row is not None else None

    def jobs(
        self,
        *,
        states: Iterable[JobState] | None = None,
        name: str | None = None,
        limit: int | None = None,
        after_seq: int | None = None,
        is_work: bool = False,
    ) -> list[Job]:
        """Newest first. `after_seq` continues a listing behind the job of that `seq`. `is_work`:
        without ended ones that have only prepared an environment."""
        where, parameters = ["seq > 0"], list[object]()
        if states is not None:
            wanted = frozenset(states)
            if not wanted:
                return []
            where.append(f"state IN ({', '.join('?' * len(wanted))})")
            parameters += sorted(state.value for state in wanted)
            if not any(state in TERMINAL_JOB_STATES for state in wanted):
                where.append("finished_at IS NULL")
        if name is not None:
            where.append("name = ?")
            parameters.append(name)
        if after_seq is not None:
            where.append("seq < ?")
            parameters.append(after_seq)
        if is_work:
            where.append("(finished_at IS NULL OR coalesce(session, '') <> ?)")
            parameters.append(PREPARES)
        sql = f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY seq DESC LIMIT ?"
        rows = self._all(sql, *parameters, NO_LIMIT if limit is None else limit)
        return [JOBS.record(row) for row in rows]

    def jobs_by_prefix(self, prefix: str, limit: int = 2) -> list[Job]:
        """Jobs whose id begins so, newest first."""
        if not _may_name(prefix):
            return []
        rows = self._all(_BY_PREFIX, prefix, prefix + _ABOVE_ALL, limit)
        return [JOBS.record(row) for row in rows]

    def find_jobs(
        self, selector: str, *, session: str | None = None, owner: str | None = None
    ) -> list[Job]:
        """What a selector means: an id, a unique prefix, the newest of a name, or `last` (the
        session's or owner's newest among the `RECENT`, without either the newest). Two:
        ambiguous."""
        if selector == "last" and owner is not None:
            return [JOBS.record(row) for row in self._all(_BY_OWNER, RECENT, owner, PREPARES)]
        if selector == "last":
            if session is None:
                rows = self._all(_NEWEST, PREPARES)
            else:
                rows = self._all(_BY_SESSION, RECENT, plain_text(session))
            return [JOBS.record(row) for row in rows]
        if not _may_name(selector):
            return []
        exact = self.job(JobId(selector))
        if exact is not None:
            return [exact]
        begun = self.jobs_by_prefix(selector) if selector else []
        if len(begun) == 1:
            return begun
        return self.jobs(name=selector, limit=1) or begun

    def ready_heads(self, now: float, per_shape: int) -> list[Pending]:
        """Queued jobs that are due: of each shape the first `per_shape` by priority, then age.
        Ordered the same way over all shapes. Costs by heads, not by the length of the queue."""
        heads = [
            Pending(
                JobId(row[0]),
                ShapeId(row[1]),
                row[2],
                row[3],
                bool(row[4]),
                row[5] is not None,
                max(row[6], row[7]),
            )
            for (shape_id,) in self._all(_QUEUED_SHAPES)
            for row in self._all(_HEADS, shape_id, now, per_shape)
        ]
        return sorted(heads, key=lambda head: (-head.priority, head.seq))

    def delayed(self, now: float = 0.0) -> list[Job]:
        """Queued jobs that wait for a time after `now`, soonest first."""
        return [JOBS.record(row) for row in self._all(_DELAYED, now)]

    def counts(self) -> dict[JobState, int]:
        """How many jobs are in each state. Kept, not counted."""
        return {JobState(state): n for state, n in self._all(_COUNTS)}

    def queued_count(self) -> int:
        return self._number(_COUNT_QUEUED)

    def queued_by_shape(self, limit: int) -> list[tuple[ShapeId, int]]:
        """The shapes with the most waiting jobs, and how many each has. Costs the queue's length:
        it is for people, and no pass asks it."""
        return [(ShapeId(row[0]), int(row[1])) for row in self._all(_QUEUED_BY_SHAPE, limit)]

    def unfinished(self) -> int:
        """How many jobs have not ended."""
        return self._number(_COUNT_UNFINISHED)

    def lenders(self) -> frozenset[JobId]:
        """Jobs from inside of which jobs were submitted that have not ended."""
        return frozenset(row[0] for row in self._all(_LENDERS))

    def live_envelopes(self) -> frozenset[EnvelopeId]:
        """Envelopes of jobs that have not ended."""
        return frozenset(row[0] for row in self._all(_ENVELOPES))

    def ended_before(self, at: float, limit: int | None = 1000) -> list[JobId]:
        """Jobs that ended before `at`, the oldest end first: what a collection may delete."""
        return [
            JobId(row[0]) for row in self._all(_ENDED, at, NO_LIMIT if limit is None else limit)
        ]


class JobWrites(JobReads, Writes):
    def delete_job(self, job_id: JobId) -> bool:
        """Delete an ended job with its tasks, events, results and outputs. False: there is no
        such ended job. The files of its logs and artifacts are the caller's."""
        row = self._one(_DELETE, job_id)
        if row is not None:
            self._memo.tally[row[0]] -= 1
        return row is not None

    def counts(self) -> dict[JobState, int]:
        self.settle()
        return super().counts()

    def queued_count(self) -> int:
        self.settle()
        return super().queued_count()

    def unfinished(self) -> int:
        self.settle()
        return super().unfinished()

    def settle(self) -> None:
        """Add the tally to the kept counts. Called before every commit."""
        for state, moved in self._memo.tally.items():
            if moved:
                self._execute(_TALLY, (moved, state))
        self._memo.tally.clear()

    def _job_guard(self, job_id: JobId) -> tuple[str, int] | None:
        row = self._one(_STATE, job_id)
        return (row[0], row[1]) if row is not None else None

    def _insert_job(self, job: Job) -> None:
        self._execute(JOBS.insert, JOBS.row(job))
        self._memo.tally[job.state.value] += 1

    def _update_job(self, update: JobUpdate) -> bool:
        clause, parameters = JOBS.assignments(update.values)
        sql = f"UPDATE jobs SET {clause}{', ' if clause else ''}version = version + 1" + _GUARD
        parameters += (update.job_id, update.expect.value, update.version)
        return self._execute(sql, parameters).rowcount == 1

    def _tally_moves(self, updates: Iterable[JobUpdate]) -> None:
        for update in updates:
            if "state" in update.values:
                self._memo.tally[update.expect.value] -= 1
                self._memo.tally[str(update.values["state"])] += 1


_GUARD = " WHERE id = ? AND state = ? AND version = ?"
_ABOVE_ALL = "\U0010ffff"


def _may_name(selector: str) -> bool:
    """Whether a job could be called so: text with a NUL cannot even be asked for everywhere."""
    return "\0" not in selector
