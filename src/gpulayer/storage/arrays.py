"""The tables of arrays: how far each is, and the states of its elements, a thousand to a row."""

from __future__ import annotations

import json
from collections.abc import Iterable

from gpulayer.contracts.decision import Pending
from gpulayer.contracts.ids import JobId, ShapeId
from gpulayer.contracts.records import Chunk, Progress
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import NO_LIMIT, Codec, Table, to_json

ARRAYS = Table("arrays", Progress, codecs={})
CHUNKS = Table(
    "array_chunks",
    Chunk,
    codecs={
        "again": Codec(
            to_json, lambda text: {at: tuple(one) for at, one in json.loads(text).items()}
        )
    },
)


def _put(table: Table[Progress] | Table[Chunk], key: str, columns: Iterable[str]) -> str:
    sets = ", ".join(f"{name} = excluded.{name}" for name in columns)
    return f"{table.insert} ON CONFLICT ({key}) DO UPDATE SET {sets}"


_COUNTS = (
    "waiting", "live", "succeeded", "failed", "timed_out", "cancelled", "returned", "next", "told",
    "pace",
)  # fmt: skip
_PUT_ARRAY = _put(ARRAYS, "job_id", _COUNTS)
_PUT_CHUNK = _put(CHUNKS, "job_id, chunk", ("states", "again", "due"))
_ARRAY = f"SELECT {ARRAYS.columns} FROM arrays WHERE job_id = ?"
_CHUNK = f"SELECT {CHUNKS.columns} FROM array_chunks WHERE job_id = ? AND chunk = ?"
_CHUNKS = (
    f"SELECT {CHUNKS.columns} FROM array_chunks WHERE job_id = ? AND chunk >= ?"
    " ORDER BY chunk LIMIT ?"
)
_DUE = (
    f"SELECT {CHUNKS.columns} FROM array_chunks WHERE job_id = ? AND due <= ? ORDER BY chunk"
    " LIMIT 1"
)
_WITH = (
    f"SELECT {CHUNKS.columns} FROM array_chunks WHERE job_id = ?"
    " AND (states LIKE '%f%' OR states LIKE '%t%') ORDER BY chunk LIMIT ?"
)
_ANY_OPEN = "SELECT 1 FROM arrays WHERE waiting + live > 0 LIMIT 1"
_OPEN = (
    "SELECT jobs.id, jobs.shape_id, jobs.priority, jobs.seq,"
    f" jobs.fail_if_unschedulable, jobs.attempt, jobs.submitted_at, {ARRAYS.columns}"
    " FROM arrays JOIN jobs ON jobs.id = arrays.job_id"
    " WHERE arrays.waiting + arrays.live > 0 AND jobs.reason <> 'dependency' ORDER BY jobs.seq"
)


class ArrayReads(Queries):
    def progress(self, job_id: JobId) -> Progress | None:
        row = self._one(_ARRAY, job_id)
        return ARRAYS.record(row) if row is not None else None

    def open_arrays(self) -> list[tuple[Pending, Progress]]:
        """Those that have not ended, oldest first."""
        return [
            (
                Pending(
                    JobId(job), ShapeId(shape), priority, seq, bool(fails) and not begun, True, at
                ),
                ARRAYS.record(counts),
            )
            for job, shape, priority, seq, fails, begun, at, *counts in self._all(_OPEN)
        ]

    def has_open_arrays(self) -> bool:
        return self._one(_ANY_OPEN) is not None

    def chunk(self, job_id: JobId, number: int) -> Chunk | None:
        row = self._one(_CHUNK, job_id, number)
        return CHUNKS.record(row) if row is not None else None

    def chunks(self, job_id: JobId, first: int = 0, limit: int | None = None) -> list[Chunk]:
        """In order, from that number on. Chunks that nothing was given out of are not there."""
        rows = self._all(_CHUNKS, job_id, first, NO_LIMIT if limit is None else limit)
        return [CHUNKS.record(row) for row in rows]

    def due_chunk(self, job_id: JobId, now: float) -> Chunk | None:
        """The first one with an element that was given back and may be given out again."""
        row = self._one(_DUE, job_id, now)
        return CHUNKS.record(row) if row is not None else None

    def bad_chunks(self, job_id: JobId, limit: int) -> list[Chunk]:
        """The first ones with a failed element."""
        return [CHUNKS.record(row) for row in self._all(_WITH, job_id, limit)]


class ArrayWrites(Writes):
    def _put_progress(self, progress: Progress) -> None:
        self._execute(_PUT_ARRAY, ARRAYS.row(progress))

    def _put_chunk(self, chunk: Chunk) -> None:
        self._execute(_PUT_CHUNK, CHUNKS.row(chunk))
