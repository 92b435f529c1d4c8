"""Removing what no job needs: old ended jobs with their logs, logs past their limit, artifacts that
nobody names. The limits are those of `contracts.keeping`.

Rows go before files, and what a row says of a file that goes is written before it does: killed at
any instant, nothing is listed that is not there without saying so, and the next collection removes
what this one left. An unfinished job and whatever it refers to are never touched; the database
refuses it as well. An artifact that somebody was told of within the hour stays, whatever was known
of it when this began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Event

from gpulayer.contracts import keeping
from gpulayer.contracts.checkpoint_files import digests_of
from gpulayer.contracts.durations import bytes_text, duration_text
from gpulayer.contracts.ids import Digest, JobId
from gpulayer.contracts.named import digests_named
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.control_plane.lifecycle import jobs as rules
from gpulayer.control_plane.ports import Ports, Reader, Tx, commit
from gpulayer.runtime import crash

LISTED = 1_000
"""Of what goes, the largest are listed one by one."""
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Going:
    """One thing that went, or would go."""

    kind: str
    """`job`: with its log. `log`: its job stays. `artifact`. `remains`: of a broken upload or a job
    that is not listed any more."""
    name: str
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What went, or would go."""

    jobs: int = 0
    logs: int = 0
    """Whose jobs stay."""
    log_bytes: int = 0
    """Of both."""
    artifacts: int = 0
    artifact_bytes: int = 0
    remains: int = 0
    remains_bytes: int = 0
    dry_run: bool = False
    items: tuple[Going, ...] = ()
    """The largest of it."""


@dataclass(slots=True)
class _List:
    """What goes, as it is found."""

    going: list[Going] = field(default_factory=list)

    def add(self, kind: str, name: str, size: int, why: str) -> None:
        self.going.append(Going(kind, name, size, why))

    def told(self, dry_run: bool) -> Collected:
        counts, sizes = {}, {}
        for kind in ("job", "log", "artifact", "remains"):
            found = [one.bytes for one in self.going if one.kind == kind]
            counts[kind], sizes[kind] = len(found), sum(found)
        return Collected(
            jobs=counts["job"],
            logs=counts["log"],
            log_bytes=sizes["job"] + sizes["log"],
            artifacts=counts["artifact"],
            artifact_bytes=sizes["artifact"],
            remains=counts["remains"],
            remains_bytes=sizes["remains"],
            dry_run=dry_run,
            items=tuple(sorted(self.going, key=lambda one: (-one.bytes, one.name))[:LISTED]),
        )


class Housekeeping:
    """For one thread at a time; two at once harm nothing. Twice-safe, and after a crash at any
    instant."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._ends = Event()

    def stop(self) -> None:
        """Have a collection that runs end soon, with what it has done so far."""
        self._ends.set()

    def collect(
        self,
        *,
        dry_run: bool = False,
        older_than: float | None = None,
        by_itself: bool = False,
    ) -> Collected:
        """Jobs that ended more than `older_than` seconds ago (unset: past the limits of the
        history), and what is past the other limits.

        `by_itself`: nobody has asked for it. An artifact that somebody has put there for a job to
        come then stays for a week; one that only a job of those named goes with it."""
        now = self._ports.clock.now()
        found = _List()
        with self._ports.store.read() as reader:
            doomed = self._doomed(reader, now, older_than)
            theirs = {output.digest for job_id in doomed for output in reader.outputs(job_id)}
            spent = reader.spent_checkpoints(now - keeping.CHECKPOINT_SECONDS)
            spent += [c for c in reader.spent_checkpoints(now) if c.job_id in set(doomed)]
            theirs = theirs.union(*(digests_of(kept.files) for kept in spent))
        if not dry_run:
            self._forget_checkpoints({kept.job_id for kept in spent})
            self._ports.logs.sweep()
            self._delete(doomed)
        why = "past the history" if older_than is None else _ended(older_than)
        self._collect_logs(found, doomed, why, dry_run)
        patience = self._ports.settings.unnamed_seconds if by_itself else keeping.UPLOAD_SECONDS
        without = {*doomed, *(kept.job_id for kept in spent)} if dry_run else set()
        gone = set(doomed) if dry_run else set()
        unnamed = self._unnamed(now, patience, theirs, gone, without)
        for digest, size in unnamed:
            if dry_run or self._drop(digest, now):
                found.add("artifact", digest, size, "no job names it")
        for name, size in self._ports.artifacts.sweep(
            now - keeping.UPLOAD_SECONDS, now - keeping.DAMAGED_SECONDS, dry_run=dry_run
        ):
            why = "damaged" if name.startswith(".damaged/") else "a broken upload left it"
            found.add("remains", name, size, why)
        if not dry_run and not self._ends.is_set():
            self._forget_rights(now)
        return found.told(dry_run)

    def _forget_rights(self, now: float) -> None:
        """Credentials that were of no use for as long as the history goes back, and old notes.
        Until then they can say why they are refused."""
        settings = self._ports.settings

        def forget(tx: Tx) -> None:
            for row in tx.credentials():
                ended = row.revoked_at or row.expires_at
                if ended is not None and ended < now - settings.history_seconds:
                    tx.delete_credential(row.id)
            tx.forget_audit(now - settings.audit_seconds)

        self._ports.write(forget).result()

    def _doomed(self, reader: Reader, now: float, older_than: float | None) -> list[JobId]:
        settings = self._ports.settings
        if older_than is not None:
            return reader.ended_before(now - older_than, limit=None)
        counts = reader.counts()
        ended = sum(counts.get(state, 0) for state in TERMINAL_JOB_STATES)
        excess = max(0, ended - settings.history_jobs)
        too_many = reader.ended_before(float("inf"), limit=excess)
        too_old = reader.ended_before(now - settings.history_seconds, limit=None)
        return list(dict.fromkeys([*too_many, *too_old]))

    def _forget_checkpoints(self, job_ids: Iterable[JobId]) -> None:
        def forget(tx: Tx, batch: Iterable[JobId]) -> None:
            for job_id in batch:
                tx.delete_checkpoints(job_id)

        for batch in self._in_batches(sorted(job_ids)):
            self._ports.write(partial(forget, batch=batch)).result()
            crash.point("gc-checkpoints")

    def _delete(self, doomed: Sequence[JobId]) -> None:
        for batch in self._in_batches(doomed):
            self._ports.write(partial(_forget, batch=batch)).result()
            crash.point("gc-jobs")

    def _collect_logs(self, found: _List, doomed: Sequence[JobId], why: str, dry_run: bool) -> None:
        sizes = self._ports.logs.sizes()
        with self._ports.store.read() as reader:  # after the list: a log follows its job's row
            ended = reader.ended_before(float("inf"), limit=None)
            strange = sizes.keys() - set(ended)
            lost = [job_id for job_id in sorted(strange) if reader.job(job_id) is None]
        gone = set(doomed)
        for job_id in doomed:
            found.add("job", job_id, sizes.get(job_id, 0), why)
        for job_id in lost:
            if job_id not in gone:
                found.add("remains", job_id, sizes[job_id], "its job is not listed any more")
        stay = [job_id for job_id in ended if job_id not in gone]
        kept = sum(size for job_id, size in sizes.items() if job_id not in gone.union(lost))
        too_much = list(self._past_the_limit(stay, sizes, kept))
        limit = bytes_text(self._ports.settings.logs_bytes)
        for job_id in too_much:
            found.add("log", job_id, sizes[job_id], f"past {limit} of logs; its job stays")
        if dry_run:
            return
        for job_id in lost:
            self._drop_log(job_id)
        for batch in self._in_batches(too_much):
            self._ports.write(partial(self._say, batch=batch, sizes=sizes)).result()
            crash.point("gc-said")
            for job_id in batch:
                self._drop_log(job_id)

    def _past_the_limit(
        self, stay: Iterable[JobId], sizes: dict[JobId, int], kept: int
    ) -> Iterator[JobId]:
        """Those that ended first, until the others fit."""
        for job_id in stay:
            if kept <= self._ports.settings.logs_bytes:
                return
            if sizes.get(job_id):
                yield job_id
                kept -= sizes[job_id]

    def _say(self, tx: Tx, batch: Iterable[JobId], sizes: dict[JobId, int]) -> None:
        """In the story of each, before its log goes; once, if the next collection comes again."""
        now = self._ports.clock.now()
        for job_id in batch:
            job = tx.job(job_id)
            if job is not None and rules.log_removal(tx.events(job_id)) is None:
                commit(tx, rules.log_removed(job, sizes[job_id], now))

    def _drop_log(self, job_id: JobId) -> None:
        if not self._ends.is_set():
            self._ports.logs.delete(job_id)
            crash.point("gc-log")

    def _unnamed(
        self,
        now: float,
        patience: float,
        theirs: set[str],
        without: set[JobId],
        spent: set[JobId],
    ) -> list[tuple[Digest, int]]:
        """Artifacts that no job names, and none of those soon will. `theirs`: of jobs that have
        gone, so that none will; `without`: as if these jobs had gone; `spent`: as if the
        checkpoints of these had."""
        stored = list(self._ports.artifacts.stored())
        with self._ports.store.read() as reader:
            named = reader.digests_in_use()
            if without or spent:
                kept = [job for job in reader.jobs() if job.id not in without]
                left = {Digest(o.digest) for job in kept for o in reader.outputs(job.id)}
                stay = [job.id for job in kept if job.id not in spent]
                saved = (c.files for job_id in stay for c in reader.checkpoints(job_id))
                left = left.union(*map(digests_of, saved))
                left |= reader.worlds()  # those of the going too: a little less is told to go
                named = frozenset(left.union(*(digests_named(job.spec) for job in kept)))
        return [
            (digest, size)
            for digest, size, touched in stored
            if digest not in named
            and now - touched >= (keeping.UPLOAD_SECONDS if digest in theirs else patience)
        ]

    def _drop(self, digest: Digest, now: float) -> bool:
        """Unless somebody was told meanwhile that it is here."""
        if self._ends.is_set():
            return False
        freed = self._ports.artifacts.delete(digest, now - keeping.UPLOAD_SECONDS)
        crash.point("gc-artifact")
        return freed is not None

    def _in_batches(self, ids: Sequence[JobId]) -> Iterator[tuple[JobId, ...]]:
        for start in range(0, len(ids), _BATCH):
            if self._ends.is_set():
                return
            yield tuple(ids[start : start + _BATCH])


def _forget(tx: Tx, batch: Iterable[JobId]) -> None:
    for job_id in batch:
        tx.delete_job(job_id)
    tx.forget_decisions()


def _ended(older_than: float) -> str:
    return f"ended more than {duration_text(older_than)} ago"
