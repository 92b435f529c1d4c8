"""The truth about jobs: one store, one writer, and the only room where SQL is written.

    Store     write(function of Tx) -> Future    read() -> Reader    close()
      |
      writer        one thread; drains what has piled up into one transaction
      commits       batch -> transaction -> commit -> answers; a bad command fails alone
      tx            Reader: all named queries. Tx: the same + apply(changes), fences, put_...
      |
      jobs  tasks  workers  stream (events)  results  decisions  credentials    SQL by family
      rows          record <-> row         fences, memo             what the writer keeps in memory
      |
      engine        what the store needs of a database, and two that have it:
        sqlite, sqlite_engine       connections, pragmas, what an error means
        postgres, postgres_engine   the same of a server; postgres_turn: one writer over all planes
      dialect       the few words in which their SQL differs
      migrations    schema/0001.sql, ... each applied once
      wal_bug       which SQLite this is, for `doctor`

    logs      LogFolder: the segments of tasks, files beside the database

What holds, and where it is enforced:
- A command is answered after its commit; what was answered survives the death of the process, and
  of the machine when it was written durable with durability "power" (commits).
- Updates name the state and version they expect; if one guard is broken, nothing is written (tx).
- Legal moves, one live task per (job, element, rank), `finished_at` with terminal states only,
  results written once, events without a gap: the database refuses everything else (schema).
- No fence is ever given twice (fences).

It has no opinion on what should happen next, reads no clock, and holds no lock on the folder: that
one process owns the SQLite file is the plane's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulayer.storage.store import Store
    from gpulayer.storage.tx import Reader, Tx

__all__ = ["Reader", "Store", "Tx"]


def __getattr__(name: str) -> Any:
    # Late, so that a look at the package does not load a database.
    if name == "Store":
        from gpulayer.storage.store import Store

        return Store
    if name in ("Reader", "Tx"):
        from gpulayer.storage import tx

        return getattr(tx, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
