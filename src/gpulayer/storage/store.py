"""The store as the rest of the house sees it: write a function, read an instant, close."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Literal, TypeVar

from gpulayer.errors import UnreachableError
from gpulayer.storage.commits import Command, Commits, Fault
from gpulayer.storage.engine import Engine, Hear, News, Reading
from gpulayer.storage.tx import Reader, Tx
from gpulayer.storage.writer import Writer

T = TypeVar("T")
U = TypeVar("U")


class Store:
    """One SQLite file, one in memory, or the PostgreSQL database of a `postgresql://` address. All
    methods may be called by any thread.

    `durability` says what a command written with `durable=True` survives before it is answered:
    "process" the death of this process, "power" that of the machine. Fences survive both.
    `inline` runs each command in its caller's thread, one transaction each, for the simulator:
    what a `fault` raises then reaches the caller, as the death of the plane would.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        inline: bool = False,
        durability: Literal["process", "power"] = "process",
        fault: Fault | None = None,
        home: str = "",
    ) -> None:
        """Open or create it. Raises StorageError; then nothing was changed. `home`: where this
        plane lives, which no other can hold at the same time."""
        self._engine = _engine(os.fspath(path), home)
        self.path = self._engine.where
        self._closed = False
        self._closing = threading.Lock()
        self._idle_readers: deque[Reading] = deque()
        self._writing = self._engine.open_writer()
        power = durability == "power"
        self._commits = Commits(self._engine, self._writing, power=power, fault=fault)
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

    @property
    def commits(self) -> int:
        """How many transactions there have been since it was opened."""
        return self._commits.done

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """One instant of the store: what was answered before is in it. Does not wait for writes.

        (In memory there is one connection, so there it waits for the running batch.)
        """
        with self._commits.lock if self._engine.shares_connection else nullcontext():
            reading = self._take_reader()
            try:
                with self._our_errors():
                    yield Reader(reading.execute)
            finally:
                self._give_back(reading)

    @property
    def plane(self) -> str:
        """Names this opening among the planes that share the database; empty: it is alone."""
        return self._engine.plane

    def open_news(self, hear: Hear) -> News | None:
        """A line to the planes that share the database; None: there can be none. `hear` is called
        on a thread of its own."""
        with self._our_errors():
            return self._engine.open_news(hear)

    def check(self) -> tuple[str, ...]:
        """Faults of the whole file, for `doctor`; nothing when it is sound."""
        with self._commits.lock, self._our_errors():
            return self._writing.faults()

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
        self._writing.close()

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

    def _take_reader(self) -> Reading:
        if self._closed:
            raise _closed(self.path)
        with suppress(IndexError):
            while True:
                reading = self._idle_readers.pop()
                try:
                    reading.begin()
                    return reading
                except Exception:
                    reading.close()  # it died while nobody used it
        with self._our_errors():
            reading = self._engine.open_reader()
            reading.begin()
        return reading

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            ours = self._engine.as_ours(error)
            if ours is error:
                raise
            raise ours from error

    def _give_back(self, reading: Reading) -> None:
        reading.end()
        with self._closing:
            if not self._closed and reading.is_usable:
                self._idle_readers.append(reading)
                return
        reading.close()


def _engine(path: str, home: str) -> Engine:
    if path.startswith(("postgresql://", "postgres://")):
        from gpulayer.storage.postgres_engine import PostgresDatabase

        return PostgresDatabase(path, home)
    from gpulayer.storage.sqlite_engine import SqliteFile

    return SqliteFile(path)


def _closed(path: str) -> UnreachableError:
    return UnreachableError("plane-unreachable", "The store is closed.", where=path)
