"""The store as the rest of the house sees it: write a function, read an instant, close."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from gpulayer.errors import UnreachableError
from gpulayer.storage import sqlite
from gpulayer.storage.commits import Command, Commits, Fault
from gpulayer.storage.migrations import migrate
from gpulayer.storage.tx import Reader, Tx
from gpulayer.storage.writer import Writer

T = TypeVar("T")
U = TypeVar("U")


class Store:
    """One SQLite file, or one database in memory. All methods may be called by any thread.

    `durability` says what a command written with `durable=True` survives before it is answered:
    "process" the death of this process, "power" that of the machine. Fences survive both.
    `inline` runs each command in its caller's thread, one transaction each, for the simulator:
    what a `fault` raises then reaches the caller, as the death of the plane would.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = sqlite.MEMORY,
        *,
        inline: bool = False,
        durability: Literal["process", "power"] = "process",
        fault: Fault | None = None,
    ) -> None:
        """Open or create it. Raises StorageError; then nothing was changed."""
        self.path = os.fspath(path)
        self._closed = False
        self._closing = threading.Lock()
        self._idle_readers: deque[sqlite.Connection] = deque()
        self._connection = sqlite.open_writer(self.path)
        try:
            migrate(self._connection, self.path)
        except BaseException:
            self._connection.close()
            raise
        power = durability == "power"
        self._commits = Commits(self._connection, self.path, power=power, fault=fault)
        self._writer = None if inline else Writer(self._commits)

    def write(self, run: Callable[[Tx], T], durable: bool = False) -> Future[T]:
        """Run it in a transaction; the answer comes after the commit and cannot be cancelled.

        Commands of one thread are committed in its order. `run` may be called again after a
        rollback, so it does nothing but read and write its Tx. It must not wait for the store.
        """
        return self._write(Command(run, durable))[0]

    def write_both(
        self, first: Callable[[Tx], T], second: Callable[[Tx], U], durable: bool = False
    ) -> tuple[Future[T], Future[U]]:
        """Two commands in one commit, as `write`. One that fails fails alone."""
        one, other = self._write(Command(first, durable), Command(second, durable))
        return one, other

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """One instant of the store: what was answered before is in it. Does not wait for writes.

        (In memory there is one connection, so there it waits for the running batch.)
        """
        if self.path == sqlite.MEMORY:
            with self._commits.lock, sqlite.storage_errors(self.path):
                if self._closed:
                    raise _closed(self.path)
                yield Reader(self._connection.execute)
            return
        connection = self._take_reader()
        try:
            with sqlite.storage_errors(self.path):
                connection.execute("BEGIN")
                yield Reader(connection.execute)
        finally:
            self._give_back(connection)

    def check(self) -> tuple[str, ...]:
        """Faults of the whole file, for `doctor`; nothing when it is sound."""
        with self._commits.lock, sqlite.storage_errors(self.path):
            return sqlite.faults(self._connection)

    def close(self) -> None:
        """Commit what was written, move the log into the file, and let go of it. Twice-safe.

        Afterwards no `-wal` file is left, and another process may open the file.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
        if self._writer is not None:
            self._writer.close()
        while self._idle_readers:
            self._idle_readers.pop().close()
        sqlite.close_writer(self._connection)

    def _write(self, *commands: Command) -> list[Future[Any]]:
        answers = [command.answer for command in commands]
        for answer in answers:
            answer.set_running_or_notify_cancel()
        with self._closing:
            if self._closed:
                raise _closed(self.path)
            if self._writer is not None:
                self._writer.put(commands)
                return answers
        self._commits.run(commands)
        return answers

    def _take_reader(self) -> sqlite.Connection:
        if self._closed:
            raise _closed(self.path)
        try:
            return self._idle_readers.pop()
        except IndexError:
            return sqlite.open_reader(self.path)

    def _give_back(self, connection: sqlite.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._closing:
            if not self._closed:
                self._idle_readers.append(connection)
                return
        connection.close()


def _closed(path: str) -> UnreachableError:
    return UnreachableError("plane-unreachable", "The store is closed.", where=path)
