"""Writing to PostgreSQL, one transaction at a time over all planes.

    BEGIN - take the turn (one row, locked until the end) - commands - COMMIT

The turn is numbered, and each plane's row keeps the number of its newest commit. So a plane learns
at the beginning whether others have written since, and, when its connection broke during a commit,
whether that one was kept: on a new connection it waits for the turn, which the lost transaction
holds until it has ended one way or the other, and then compares. (`pg_xact_status` cannot say it
after a crash of the server: it may give a number that was not yet on the disk out again.)
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import psycopg

from gpulayer.errors import StorageError
from gpulayer.storage import dialect, postgres
from gpulayer.storage.engine import Again, Turn, UnknownOutcome
from gpulayer.storage.queries import Rows

PATIENCE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before each try of a new connection: a restart of the server is waited for."""
_TURN = """
WITH taken AS (UPDATE turn SET n = n + 1 RETURNING n, epoch)
INSERT INTO planes (id, home, n) SELECT $1, $2, n FROM taken
ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING n, (SELECT epoch FROM taken)"""
_BEGIN = {
    True: "BEGIN; SET LOCAL synchronous_commit TO on",
    False: "BEGIN; SET LOCAL synchronous_commit TO off",
}


class PostgresWriting:
    """The writing connection of one plane, replaced when it breaks."""

    patience = PATIENCE

    def __init__(self, address: str, where: str, plane: str, home: str) -> None:
        self._address, self._where = address, where
        self._plane, self._home = plane, home
        self._connection = postgres.connect(address)
        self._cursor = self._connection.cursor()
        self._changes = 0
        self._n = self._committed = 0
        self._is_down = False

    @property
    def connection(self) -> postgres.Connection:
        return self._connection

    def execute(self, sql: str, parameters: Sequence[object] = (), /) -> Rows:
        cursor = self._cursor
        try:
            cursor.execute(dialect.statement(sql), parameters)
        except psycopg.IntegrityError as error:
            raise postgres.broken_law(error) from None
        if cursor.rowcount > 0 and not (cursor.statusmessage or "").startswith("SELECT"):
            self._changes += cursor.rowcount
        return cursor

    def begin(self, *, synced: bool) -> Turn:
        self._cursor.execute(_BEGIN[synced], prepare=False)
        row = self._cursor.execute(_TURN, (self._plane, self._home)).fetchone()
        assert row is not None
        self._n, epoch = row
        return Turn(self._n != self._committed + 1, epoch)

    def commit(self) -> None:
        try:
            self._cursor.execute("COMMIT", prepare=False)
        except psycopg.Error as error:
            if not postgres.is_lost(error, self._connection):
                raise
            if not self._was_kept(error):
                raise Again from error
        else:
            if self._cursor.statusmessage != "COMMIT":
                raise psycopg.InternalError("a failed transaction was to be committed")
        self._committed = self._n

    def roll_back(self) -> None:
        if self._connection.closed or not self._is_in_transaction():
            return
        try:
            self._cursor.execute("ROLLBACK", prepare=False)
        except psycopg.Error:
            self._connection.close()

    def changes(self) -> int:
        return self._changes

    def can_go_on(self) -> bool:
        status = self._connection.info.transaction_status
        return status is psycopg.pq.TransactionStatus.INTRANS

    def recover(self, attempt: int) -> bool:
        waits = self.patience[attempt - 1 :]
        if self._is_down:
            waits = waits[:1]  # who comes while the server is away is told so at once
        for wait in waits:
            if not self._connection.closed:
                return True
            Event().wait(wait)
            try:
                self._connect()
            except psycopg.Error:
                continue
            self._is_down = False
            return True
        self._is_down = True
        return False

    def faults(self) -> tuple[str, ...]:
        """The server checks its pages and rows itself; asked is whether it answers."""
        self.execute("SELECT 1")
        return ()

    def close(self) -> None:
        try:
            self._cursor.execute("DELETE FROM planes WHERE id = $1", (self._plane,))
        except psycopg.Error:
            pass  # the row of a plane that is gone says nothing to anybody
        self._connection.close()

    def _is_in_transaction(self) -> bool:
        return self._connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE

    def _connect(self) -> None:
        self._connection.close()
        self._connection = postgres.connect(self._address)
        self._cursor = self._connection.cursor()

    def _was_kept(self, error: psycopg.Error) -> bool:
        for attempt in range(1, len(self.patience) + 1):
            if not self.recover(attempt):
                break
            try:
                with self._connection.transaction():
                    self._cursor.execute("SELECT n FROM turn FOR UPDATE")
                    row = self._cursor.execute(
                        "SELECT n FROM planes WHERE id = $1", (self._plane,)
                    ).fetchone()
                return row is not None and row[0] == self._n
            except psycopg.Error as again:
                if not postgres.is_passing(again):
                    raise
        unknown = StorageError(
            "database-unreachable",
            "The database went away during a commit: whether it was kept is not known.",
            where=self._where,
            why="ask again with the same idempotency key, or look when the database is back",
        )
        unknown.__cause__ = error
        raise UnknownOutcome from unknown
