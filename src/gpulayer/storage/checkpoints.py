"""The table of checkpoints: of each job the newest few. The database takes none of an attempt that
is over, so that no late word of one can replace what a newer one left."""

from __future__ import annotations

import json

from gpulayer.contracts.checkpoint_files import digests_of
from gpulayer.contracts.ids import Digest, JobId
from gpulayer.contracts.records import KeptCheckpoint
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import JSON_TUPLE, Table

CHECKPOINTS = Table("checkpoints", KeptCheckpoint, codecs={"files": JSON_TUPLE})

_SELECT = f"SELECT {CHECKPOINTS.columns} FROM checkpoints"
_OF_JOB = f'{_SELECT} WHERE job_id = ? AND "index" = ? ORDER BY seq DESC'
_SPENT = (
    f"{_SELECT} JOIN jobs ON jobs.id = checkpoints.job_id WHERE jobs.finished_at IS NOT NULL"
    " AND (jobs.state = 'succeeded' OR jobs.finished_at < ?) ORDER BY checkpoints.seq"
)
_FILES = "SELECT files FROM checkpoints"
_TRIM = """
DELETE FROM checkpoints WHERE job_id = ? AND "index" = ? AND seq NOT IN
    (SELECT seq FROM checkpoints WHERE job_id = ? AND "index" = ? ORDER BY seq DESC LIMIT ?)"""
_DELETE = "DELETE FROM checkpoints WHERE job_id = ?"


class CheckpointReads(Queries):
    def checkpoints(self, job_id: JobId, index: int = 0) -> list[KeptCheckpoint]:
        """Newest first."""
        return [CHECKPOINTS.record(row) for row in self._all(_OF_JOB, job_id, index)]

    def spent_checkpoints(self, before: float) -> list[KeptCheckpoint]:
        """Those of jobs that succeeded, or ended before then."""
        return [CHECKPOINTS.record(row) for row in self._all(_SPENT, before)]

    def _digests_of_checkpoints(self) -> frozenset[Digest]:
        rows = self._all(_FILES)
        return frozenset().union(*(digests_of(json.loads(row[0])) for row in rows))


class CheckpointWrites(Writes):
    def put_checkpoint(self, checkpoint: KeptCheckpoint, keep: int) -> None:
        """Add it as the newest, and let go of all but so many of its job."""
        of = (checkpoint.job_id, checkpoint.index)
        self._execute(CHECKPOINTS.insert, CHECKPOINTS.row(checkpoint))
        self._execute(_TRIM, (*of, *of, keep))

    def delete_checkpoints(self, job_id: JobId) -> None:
        self._execute(_DELETE, (job_id,))
