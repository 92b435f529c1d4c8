"""Events: the story of each job, numbered by the store without a gap from 1."""

from __future__ import annotations

from gpulayer.contracts.changes import NewEvent
from gpulayer.contracts.ids import JobId
from gpulayer.contracts.records import Event
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import JSON, NO_LIMIT, TEXT, Table, plain_text, to_json

EVENTS = Table(
    "events",
    Event,
    codecs={"kind": TEXT, "state": TEXT, "reason": TEXT, "message": TEXT, "data": JSON},
)

_SELECT = f"SELECT {EVENTS.columns} FROM events"
_AFTER = f"{_SELECT} WHERE job_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_LAST = f"{_SELECT} WHERE job_id = ? ORDER BY seq DESC LIMIT ?"
_INSERT = (
    "INSERT INTO events (job_id, seq, at, kind, state, reason, message, task_id, data) VALUES"
    " (?1, (SELECT coalesce(max(seq), 0) + 1 FROM events WHERE job_id = ?1),"
    " ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
)


class EventReads(Queries):
    def events(self, job_id: JobId, after: int = 0, limit: int | None = None) -> list[Event]:
        """Those with a `seq` above `after`, in order."""
        rows = self._all(_AFTER, job_id, after, NO_LIMIT if limit is None else limit)
        return [EVENTS.record(row) for row in rows]

    def last_events(self, job_id: JobId, limit: int) -> list[Event]:
        """The newest ones, in order."""
        return [EVENTS.record(row) for row in reversed(self._all(_LAST, job_id, limit))]


class EventWrites(Writes):
    def _insert_event(self, event: NewEvent) -> None:
        self._execute(
            _INSERT,
            (
                event.job_id,
                event.at,
                str(event.kind),
                str(event.state),
                str(event.reason),
                plain_text(event.message),
                event.task_id,
                to_json(event.data) if event.data else "{}",
            ),
        )
