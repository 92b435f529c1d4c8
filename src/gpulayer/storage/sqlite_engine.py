"""SQLite as an engine: one connection writes and checkpoints, any number read."""

from __future__ import annotations

import sqlite3

from gpulayer.storage import sqlite
from gpulayer.storage.engine import Hear, Turn

_ALONE = Turn()


HOLES = 1_000
"""Free pages that are no loss: they are used before the file grows."""


class SqliteFile:
    """The engine over one file, or over one database in memory."""

    law = sqlite3.IntegrityError
    plane = ""

    def __init__(self, path: str) -> None:
        self.where = path
        self.shares_connection = path == sqlite.MEMORY
        self._shared: sqlite3.Connection | None = None

    def open_writer(self) -> SqliteWriting:
        connection = sqlite.open_writer(self.where)
        try:
            sqlite.migrate(connection, self.where)
        except BaseException:
            connection.close()
            raise
        self._shared = connection
        return SqliteWriting(connection)

    def open_reader(self) -> SqliteReading:
        if self.shares_connection:
            assert self._shared is not None
            return SqliteReading(self._shared, owned=False)
        return SqliteReading(sqlite.open_reader(self.where), owned=True)

    def open_news(self, hear: Hear) -> None:
        return None

    def as_ours(self, error: BaseException) -> BaseException:
        return sqlite.as_ours(error, self.where)

    def is_passing(self, error: BaseException) -> bool:
        return False

    def lost_sync(self, error: BaseException) -> bool:
        return sqlite.lost_sync(error)


class SqliteWriting:
    """The connection that writes and checkpoints."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self._is_synced = False

    def begin(self, *, synced: bool) -> Turn:
        if synced is not self._is_synced:
            self.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._is_synced = synced
        self.execute("BEGIN IMMEDIATE")
        return _ALONE

    def commit(self) -> None:
        self.execute("COMMIT")

    def roll_back(self) -> None:
        if self.connection.in_transaction:
            self.execute("ROLLBACK")

    def changes(self) -> int:
        return self.connection.total_changes

    def can_go_on(self) -> bool:
        return self.connection.in_transaction  # some errors of the disk have ended it already

    def recover(self, attempt: int) -> bool:
        return False

    def faults(self) -> tuple[str, ...]:
        found = [row[0] for row in self.execute("PRAGMA quick_check(20)") if row[0] != "ok"]
        orphans = self.execute("PRAGMA foreign_key_check").fetchmany(20)
        return (
            *found,
            *(f"{table}: a row without its {parent}" for table, _, parent, _ in orphans),
        )

    def close(self) -> None:
        """Move the log into the file and close. Readers must be closed already. A file that is
        mostly holes is written anew: nobody waits for it now."""
        try:
            if self._has_holes():
                self.execute("VACUUM")
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error:
            pass  # the log stays beside the file and is read at the next open
        self.connection.close()

    def _has_holes(self) -> bool:
        (free,) = self.execute("PRAGMA freelist_count").fetchone()
        (pages,) = self.execute("PRAGMA page_count").fetchone()
        return free > HOLES and free > pages / 2  # type: ignore[no-any-return]


class SqliteReading:
    """A read-only connection; or, not `owned`, the one of a database in memory."""

    is_usable = True

    def __init__(self, connection: sqlite3.Connection, *, owned: bool) -> None:
        self.execute = connection.execute
        self._connection = connection
        self._owned = owned

    def begin(self) -> None:
        if self._owned:
            self.execute("BEGIN")

    def end(self) -> None:
        if self._owned and self._connection.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        if self._owned:
            self._connection.close()
