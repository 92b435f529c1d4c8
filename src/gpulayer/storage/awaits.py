"""The table of what jobs wait for: a row for each job that has not ended, and none behind that."""

from __future__ import annotations

from collections.abc import Iterable

from gpulayer.contracts.ids import JobId
from gpulayer.contracts.states import JobState
from gpulayer.storage.queries import Queries, Writes

# By the job that is waited for, of which there are few: many wait for one.
_ENDED = """
SELECT awaited.on_job, jobs.state FROM (SELECT DISTINCT on_job FROM awaits) awaited
LEFT JOIN jobs ON jobs.id = awaited.on_job
WHERE jobs.id IS NULL OR jobs.finished_at IS NOT NULL ORDER BY awaited.on_job"""
_ON = "SELECT job_id, must_succeed FROM awaits WHERE on_job = ? ORDER BY job_id"
_LEFT = "SELECT on_job FROM awaits WHERE job_id = ? ORDER BY on_job"
_PUT = "INSERT INTO awaits (job_id, on_job, must_succeed) VALUES (?, ?, ?)"
_FORGET = "DELETE FROM awaits WHERE on_job = ?"


class AwaitReads(Queries):
    def awaited_ends(self) -> list[tuple[JobId, JobState | None]]:
        """Jobs that others wait for and that have ended, with their state; None: deleted since."""
        rows = self._all(_ENDED)
        return [(JobId(row[0]), JobState(row[1]) if row[1] else None) for row in rows]

    def waiting_on(self, job_id: JobId) -> list[tuple[JobId, bool]]:
        """Who waits for it, and whether it must succeed for them."""
        return [(JobId(row[0]), bool(row[1])) for row in self._all(_ON, job_id)]

    def awaits(self, job_id: JobId) -> list[JobId]:
        """What it still waits for."""
        return [JobId(row[0]) for row in self._all(_LEFT, job_id)]


class AwaitWrites(Writes):
    def put_awaits(self, job_id: JobId, on: Iterable[tuple[JobId, bool]]) -> None:
        """It waits for these, each of which must succeed or only end."""
        for on_job, must_succeed in on:
            self._execute(_PUT, (job_id, on_job, int(must_succeed)))

    def forget_awaited(self, job_id: JobId) -> None:
        """Nobody waits for that job any more."""
        self._execute(_FORGET, (job_id,))
