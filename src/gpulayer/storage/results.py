"""Results and outputs, both by (job, index). A result is written once; the database insists."""

from __future__ import annotations

import json

from gpulayer.contracts.ids import Digest, JobId
from gpulayer.contracts.named import ADDRESS, digests_named
from gpulayer.contracts.records import Output, Result
from gpulayer.contracts.states import JobState
from gpulayer.storage.checkpoints import CheckpointReads
from gpulayer.storage.queries import Writes
from gpulayer.storage.rows import FLAG, JSON, PATH, Table, as_enum, plain_text

RESULTS = Table("results", Result, codecs={"state": as_enum(JobState), "error": JSON, "left": JSON})
OUTPUTS = Table("outputs", Output, codecs={"path": PATH, "executable": FLAG})

_RESULTS = f'SELECT {RESULTS.columns} FROM results WHERE job_id = ? ORDER BY "index"'
_RESULT = f'SELECT {RESULTS.columns} FROM results WHERE job_id = ? AND "index" = ?'
_RESULTS_AFTER = (
    f'SELECT {RESULTS.columns} FROM results WHERE job_id = ? AND "index" > ?'
    ' ORDER BY "index" LIMIT ?'
)
_RESULTS_BY_END = (
    f"SELECT seq, {RESULTS.columns} FROM results"
    " WHERE job_id || '' = ? AND seq > ? AND \"index\" >= 0 ORDER BY seq LIMIT ?"
)
"""The text that is joined to it keeps the database to the order of `seq`: by the index of jobs it
would sort all results of an array for each page."""
_OUTPUTS_OF = (
    f'SELECT {OUTPUTS.columns} FROM outputs WHERE job_id = ? AND "index" = ? ORDER BY path'
)
_OUTPUTS = f'SELECT {OUTPUTS.columns} FROM outputs WHERE job_id = ? ORDER BY "index", path'
_DELETE_OUTPUTS = "DELETE FROM outputs WHERE job_id = ?"
_LAST_END = "SELECT coalesce(max(seq), 0) FROM results"
_ENDED_OF = (
    "SELECT results.seq, results.job_id FROM results JOIN jobs ON jobs.id = results.job_id "
    "WHERE results.seq > ? AND jobs.session = ?"
    ' AND (jobs.elements IS NULL OR results."index" < 0) ORDER BY results.seq LIMIT ?'
)
_DIGESTS = "SELECT DISTINCT digest FROM outputs"
_WORLDS = "SELECT DISTINCT world FROM tasks WHERE world IS NOT NULL"
_WORLDS_OF = (
    "SELECT DISTINCT world FROM tasks WHERE job_id = ? AND world IS NOT NULL ORDER BY world LIMIT ?"
)
WORLDS_TOLD = 16
_NAMING = "SELECT spec FROM jobs WHERE spec LIKE ?"


class ResultReads(CheckpointReads):
    def result(self, job_id: JobId, index: int = 0) -> Result | None:
        row = self._one(_RESULT, job_id, index)
        return RESULTS.record(row) if row is not None else None

    def results(self, job_id: JobId) -> list[Result]:
        """By element."""
        return [RESULTS.record(row) for row in self._all(_RESULTS, job_id)]

    def results_after(self, job_id: JobId, index: int, limit: int) -> list[Result]:
        """The same from behind an index on."""
        return [RESULTS.record(row) for row in self._all(_RESULTS_AFTER, job_id, index, limit)]

    def results_by_end(self, job_id: JobId, after: int, limit: int) -> list[tuple[int, Result]]:
        """Those of elements in the order of their ends, with the numbers of these, from behind the
        end of that number on."""
        rows = self._all(_RESULTS_BY_END, job_id, after, limit)
        return [(seq, RESULTS.record(row)) for seq, *row in rows]

    def outputs_of(self, job_id: JobId, index: int) -> list[Output]:
        """Of one element, by path."""
        return [OUTPUTS.record(row) for row in self._all(_OUTPUTS_OF, job_id, index)]

    def outputs(self, job_id: JobId) -> list[Output]:
        """By element, then path."""
        return [OUTPUTS.record(row) for row in self._all(_OUTPUTS, job_id)]

    def last_end(self) -> int:
        """The number of the newest result; 0 before the first."""
        return self._number(_LAST_END)

    def ended_of_session(self, session: str, after: int, limit: int) -> list[tuple[int, JobId]]:
        """Ends of a session's jobs that are newer than the result numbered `after`, in order."""
        return [
            (row[0], JobId(row[1]))
            for row in self._all(_ENDED_OF, after, plain_text(session), limit)
        ]

    def worlds(self) -> frozenset[Digest]:
        """What tasks ran in. Costs the length of their table."""
        return frozenset(row[0] for row in self._all(_WORLDS))

    def worlds_of(self, job_id: JobId) -> list[Digest]:
        """What a job's tasks ran in; the first `WORLDS_TOLD` of many."""
        return [row[0] for row in self._all(_WORLDS_OF, job_id, WORLDS_TOLD)]

    def digests_in_use(self) -> frozenset[Digest]:
        """Artifacts that a job's spec, output, world or checkpoint still names."""
        left = {row[0] for row in self._all(_DIGESTS)}
        specs = (json.loads(row[0]) for row in self._all(_NAMING, f"%{ADDRESS}%"))
        return self._digests_of_checkpoints().union(left, self.worlds(), *map(digests_named, specs))


class ResultWrites(Writes):
    def _insert_result(self, result: Result) -> None:
        self._execute(RESULTS.insert, RESULTS.row(result))

    def _insert_output(self, output: Output) -> None:
        self._execute(OUTPUTS.insert, OUTPUTS.row(output))

    def _delete_outputs(self, job_id: JobId) -> None:
        self._execute(_DELETE_OUTPUTS, (job_id,))
