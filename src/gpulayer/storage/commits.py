"""From commands to commits: many commands, one transaction, and then the answers.

    begin - command - command - ... - commit - answer - answer - ...

A command that fails without having written is answered with its error and disturbs nobody. One
that fails after it has written makes the transaction roll back: those before it, it alone, and
those behind it are run again, in this order, each part as a transaction. So a bad command fails
alone, and no savepoint is paid for by the good ones. Nothing is answered before its commit.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from gpulayer.errors import StorageError
from gpulayer.storage.fences import Exhausted, Fences
from gpulayer.storage.memo import Memo
from gpulayer.storage.queries import Execute, Rows
from gpulayer.storage.sqlite import as_ours, lost_sync, synchroniser
from gpulayer.storage.tx import Tx

Fault = Callable[[str], None]
"""Called at `begin`, `statement`, `executed`, `commit`, `committed`, `answer`; may end us there."""


@dataclass(frozen=True, slots=True)
class Command:
    run: Callable[[Tx], Any]
    """May be run again after a rollback: it has no effect but on the transaction."""
    durable: bool
    answer: Future[Any] = field(default_factory=Future)


class Commits:
    """Runs batches on the one writing connection. One batch at a time; `lock` is held in it."""

    def __init__(
        self, connection: sqlite3.Connection, path: str, *, power: bool, fault: Fault | None
    ) -> None:
        self.lock = threading.Lock()
        self._connection = connection
        self._path = path
        self._power = power
        self._fault = fault or _no_fault
        self._memo = Memo()
        self._fences = Fences()
        self._wait_for_disk = synchroniser(connection)
        self._execute = connection.execute if fault is None else _told(connection.execute, fault)
        self._tx = Tx(self._execute, self._memo, self._fences)
        self._broken: StorageError | None = None

    def run(self, batch: Sequence[Command]) -> None:
        """Commit and answer every command of `batch`. Raises only what a fault raises.

        Answered without the lock: whoever hears the answer may look at the store at once.
        """
        with self.lock:
            outcomes = self._run(batch)
        if batch:
            self._answer(batch, outcomes)

    def _run(self, batch: Sequence[Command]) -> list[object]:
        if not batch:
            return []
        try:
            return self._transaction(batch)
        except _Failed as failed:
            if len(batch) == 1 or self._broken is not None:
                return [failed.error] * len(batch)
            first, behind = failed.position, failed.position + 1
            parts = (batch[:first], batch[first:behind], batch[behind:])
            return [outcome for part in parts for outcome in self._run(part)]

    def _transaction(self, batch: Sequence[Command]) -> list[object]:
        """Outcomes by command: a value, or a `_Refusal`. Raises _Failed after a rollback."""
        while True:
            mark = self._fences.mark()
            try:
                return self._attempt(batch)
            except Exhausted as wanted:
                self._roll_back(mark)
                self._extend_fences(wanted)
            except BaseException:
                self._roll_back(mark)
                raise

    def _attempt(self, batch: Sequence[Command]) -> list[object]:
        position, outcomes = 0, list[object]()
        try:
            if self._broken is not None:
                raise self._broken
            self._begin(self._power and any(command.durable for command in batch))
            for command in batch:
                position = len(outcomes)
                before = self._connection.total_changes
                try:
                    outcomes.append(command.run(self._tx))
                except Exhausted:
                    raise
                except Exception as error:
                    if self._has_written_since(before):
                        raise
                    outcomes.append(_Refusal(as_ours(error, self._path)))
            position = 0
            self._commit()
        except Exhausted:
            raise
        except Exception as error:
            ours = as_ours(error, self._path)
            if lost_sync(error) and isinstance(ours, StorageError):
                self._broken = ours
            raise _Failed(position, _Refusal(ours)) from error
        return outcomes

    def _begin(self, full: bool) -> None:
        self._wait_for_disk(full)
        self._fault("begin")
        self._connection.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        self._tx.settle()
        self._fault("commit")
        self._connection.execute("COMMIT")
        self._fault("committed")

    def _has_written_since(self, changes: int) -> bool:
        # Some errors of the disk have ended the transaction already.
        return self._connection.total_changes != changes or not self._connection.in_transaction

    def _roll_back(self, mark: int) -> None:
        self._memo.clear()
        self._fences.rewind(mark)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _extend_fences(self, wanted: Exhausted) -> None:
        """Synced whatever the setting: a fence given twice would be a result given twice."""
        try:
            self._begin(full=True)
            first, end = self._fences.extend(int(self._tx.meta("next_fence") or 1), wanted)
            self._tx.set_meta("next_fence", str(end))
            self._commit()
        except Exception as error:
            self._roll_back(self._fences.mark())
            raise _Failed(0, _Refusal(as_ours(error, self._path))) from error
        self._fences.add(first, end)

    def _answer(self, batch: Sequence[Command], outcomes: Sequence[object]) -> None:
        self._fault("answer")
        for command, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, _Refusal):
                command.answer.set_exception(outcome.error)
            else:
                command.answer.set_result(outcome)


@dataclass(frozen=True, slots=True)
class _Refusal:
    error: BaseException


class _Failed(Exception):
    """The transaction is rolled back because of the command at `position`."""

    def __init__(self, position: int, error: _Refusal) -> None:
        super().__init__(str(error.error))
        self.position = position
        self.error = error


def _told(execute: Execute, fault: Fault) -> Execute:
    def run(sql: str, parameters: Sequence[Any]) -> Rows:
        fault("statement")
        rows = execute(sql, parameters)
        fault("executed")
        return rows

    return run


def _no_fault(point: str) -> None:
    pass
