"""The table of workers."""

from __future__ import annotations

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.records import Worker
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import FLAG, JSON, JSON_TUPLE, TEXT, Table

WORKERS = Table(
    "workers",
    Worker,
    codecs={
        "name": TEXT,
        "capabilities": JSON,
        "labels": JSON,
        "draining": FLAG,
        "held": JSON_TUPLE,
        "place": TEXT,
        "heir": TEXT,
        "replaced": JSON_TUPLE,
    },
    computed={"turn": "(SELECT n FROM turn)"},
)

_SELECT = f"SELECT {WORKERS.columns} FROM workers"
_BY_ID = f"{_SELECT} WHERE id = ?"
_SINCE = f"{_SELECT} WHERE turn > ? ORDER BY turn, id"
_IDS = "SELECT id FROM workers"
_ALL = f"{_SELECT} ORDER BY name, id"
_PUT = (
    f"{WORKERS.insert} ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
    " target = excluded.target, incarnation = excluded.incarnation,"
    " capabilities = excluded.capabilities, labels = excluded.labels,"
    " draining = excluded.draining, registered_at = excluded.registered_at,"
    " seen_at = excluded.seen_at, nonce = excluded.nonce, plane = excluded.plane,"
    " held = excluded.held, turn = excluded.turn, place = excluded.place,"
    " heir = excluded.heir, replaced = excluded.replaced"
)
_DELETE = "DELETE FROM workers WHERE id = ?"


class WorkerReads(Queries):
    def worker(self, worker_id: WorkerId) -> Worker | None:
        row = self._one(_BY_ID, worker_id)
        return WORKERS.record(row) if row is not None else None

    def workers(self) -> list[Worker]:
        """By name."""
        return [WORKERS.record(row) for row in self._all(_ALL)]

    def workers_since(self, turn: int) -> list[Worker]:
        """Those that were written by a commit after the one of that number, in their order."""
        return [WORKERS.record(row) for row in self._all(_SINCE, turn)]

    def worker_ids(self) -> frozenset[WorkerId]:
        return frozenset(WorkerId(row[0]) for row in self._all(_IDS))


class WorkerWrites(Writes):
    def put_worker(self, worker: Worker) -> None:
        """Write it, new or known. The database refuses an incarnation lower than the stored."""
        self._execute(_PUT, WORKERS.row(worker))

    def delete_worker(self, worker_id: WorkerId) -> None:
        """Forget it. Its tasks stay as they are."""
        self._execute(_DELETE, (worker_id,))
