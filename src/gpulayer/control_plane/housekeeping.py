"""Removing what no job needs: old ended jobs with their logs, and artifacts that nobody names.

An unfinished job and whatever it refers to are never touched; the database refuses it as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer.contracts.ids import Digest, JobId
from gpulayer.contracts.named import digests_named
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.control_plane.ports import Ports, Reader, Tx

_BATCH = 500
_UPLOAD_SECONDS = 3600.0
"""An artifact is younger than this while the job that will name it may still be on its way."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What went, or would go."""

    jobs: int
    log_bytes: int
    artifacts: int
    artifact_bytes: int
    dry_run: bool


class Housekeeping:
    """For one thread at a time. Twice-safe, and after a crash at any instant."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def collect(
        self,
        *,
        dry_run: bool = False,
        older_than: float | None = None,
        only_history: bool = False,
    ) -> Collected:
        """Jobs that ended more than `older_than` seconds ago (unset: past the limits of the
        history). Rows go before files, so that nothing that is listed lacks its log.

        `only_history`: of the artifacts that nobody names, those that these jobs named; others
        may be somebody's who put them there for a job to come."""
        now = self._ports.clock.now()
        with self._ports.store.read() as reader:
            doomed = self._doomed(reader, now, older_than)
            theirs = {output.digest for job_id in doomed for output in reader.outputs(job_id)}
        if not dry_run:
            for start in range(0, len(doomed), _BATCH):
                self._delete(doomed[start : start + _BATCH])
        log_bytes = self._collect_logs(doomed, dry_run)
        unnamed = self._unnamed(now, set(doomed) if dry_run else set())
        if only_history:
            unnamed = [digest for digest in unnamed if digest in theirs]
        artifacts = self._ports.artifacts
        size = self._size_of_artifact if dry_run else artifacts.delete
        artifact_bytes = sum(size(digest) for digest in unnamed)
        if not dry_run:
            artifacts.sweep(now - _UPLOAD_SECONDS)
            self._forget_rights(now)
        return Collected(len(doomed), log_bytes, len(unnamed), artifact_bytes, dry_run)

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

    def _delete(self, doomed: list[JobId]) -> None:
        def delete(tx: Tx) -> None:
            for job_id in doomed:
                tx.delete_job(job_id)
            tx.forget_decisions()

        self._ports.write(delete).result()

    def _collect_logs(self, doomed: list[JobId], dry_run: bool) -> int:
        logs = self._ports.logs
        if dry_run:
            return sum(logs.job_size(job_id) for job_id in doomed)
        total = 0
        for job_id in logs.job_ids():
            with self._ports.store.read() as reader:
                is_known = reader.job(job_id) is not None
            if not is_known:
                total += logs.delete(job_id)
        return total

    def _unnamed(self, now: float, without: set[JobId]) -> list[Digest]:
        with self._ports.store.read() as reader:
            named = reader.digests_in_use()
            if without:
                kept = [job for job in reader.jobs() if job.id not in without]
                left = {Digest(o.digest) for job in kept for o in reader.outputs(job.id)}
                named = frozenset(left.union(*(digests_named(job.spec) for job in kept)))
        artifacts = self._ports.artifacts
        return [
            digest
            for digest in artifacts.digests()
            if digest not in named and artifacts.age_seconds(digest, now) >= _UPLOAD_SECONDS
        ]

    def _size_of_artifact(self, digest: str) -> int:
        return self._ports.artifacts.path(digest).stat().st_size
