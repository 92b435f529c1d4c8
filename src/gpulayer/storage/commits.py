"""From commands to commits: many commands, one transaction, and then the answers.

    begin - command - command - ... - commit - answer - answer - ...

A command that fails without having written is answered with its error and disturbs nobody. One
that fails after it has written makes the transaction roll back: those before it, it alone, and
those behind it are run again, in this order, each part as a transaction. So a bad command fails
alone, and no savepoint is paid for by the good ones. Nothing is answered before its commit.

A database that is far away may lose the transaction with the connection: then all of it is run
again on the next one. If it was lost during the commit itself, the engine finds out first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts.ids import JobId
from gpulayer.errors import StorageError
from gpulayer.storage.engine import Again, Engine, RowRefused, UnknownOutcome, Writing
from gpulayer.storage.fences import Exhausted, Fences
from gpulayer.storage.memo import Memo
from gpulayer.storage.queries import Execute, Rows
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
        self, engine: Engine, writing: Writing, *, power: bool, fault: Fault | None
    ) -> None:
        self.lock = threading.Lock()
        self._engine = engine
        self._writing = writing
        self._power = power
        self._fault = fault or _no_fault
        self._memo = Memo()
        self._fences = Fences()
        execute = writing.execute if fault is None else _told(writing.execute, fault)
        self._tx = Tx(execute, self._memo, self._fences, engine.law)
        self._broken: StorageError | None = None
        self.done = 0
        """Transactions that were committed."""

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
            if len(batch) == 1 or failed.is_of_all:
                return [failed.error] * len(batch)
            first, behind = failed.position, failed.position + 1
            parts = (batch[:first], batch[first:behind], batch[behind:])
            return [outcome for part in parts for outcome in self._run(part)]

    def _transaction(self, batch: Sequence[Command]) -> list[object]:
        """Outcomes by command: a value, or a `_Refusal`. Raises _Failed after a rollback."""
        tries = 0
        while True:
            mark = self._fences.mark()
            try:
                return self._attempt(batch)
            except Exhausted as wanted:
                self._roll_back(mark)
                self._extend_fences(wanted)
            except Again as again:
                self._roll_back(mark)
                tries += 1
                if not self._writing.recover(tries):
                    raise self._failed(again.__cause__ or again, is_of_all=True) from again
            except UnknownOutcome as unknown:
                self._roll_back(self._fences.mark())  # it may be kept, with the fences it took
                raise self._failed(unknown.__cause__ or unknown, is_of_all=True) from unknown
            except _Failed as failed:
                self._roll_back(mark)
                self._tell_story(failed.error.error)
                raise
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
                before = self._writing.changes()
                try:
                    outcomes.append(command.run(self._tx))
                except Exhausted:
                    raise
                except Exception as error:
                    if self._writing.changes() != before or not self._writing.can_go_on():
                        raise
                    self._tell_story(error)
                    outcomes.append(_Refusal(self._engine.as_ours(error)))
            position = 0
            self._commit()
        except (Exhausted, Again, UnknownOutcome):
            raise
        except Exception as error:
            if self._engine.is_passing(error):
                raise Again from error
            ours = self._engine.as_ours(error)
            if self._engine.lost_sync(error) and isinstance(ours, StorageError):
                self._broken = ours
            raise self._failed(ours, position, is_of_all=self._broken is not None) from error
        return outcomes

    def _begin(self, synced: bool) -> None:
        self._fault("begin")
        turn = self._writing.begin(synced=synced)
        self._tx.epoch = turn.epoch
        if turn.others_wrote:
            self._memo.clear()

    def _commit(self) -> None:
        self._tx.settle()
        self._fault("commit")
        self._writing.commit()
        self.done += 1
        self._fault("committed")

    def _roll_back(self, mark: int) -> None:
        self._memo.clear()
        self._fences.rewind(mark)
        self._writing.roll_back()

    def _extend_fences(self, wanted: Exhausted) -> None:
        """Synced whatever the setting: a fence given twice would be a result given twice."""
        tries = 0
        while True:
            try:
                self._begin(synced=True)
                first, end = self._fences.extend(int(self._tx.meta("next_fence") or 1), wanted)
                self._tx.set_meta("next_fence", str(end))
                self._commit()
            except Exception as error:
                self._roll_back(self._fences.mark())
                tries += 1
                again = isinstance(error, Again) or self._engine.is_passing(error)
                if not (again and self._writing.recover(tries)):
                    raise self._failed(error, is_of_all=again) from error
            else:
                self._fences.add(first, end)
                return

    def _failed(
        self, error: BaseException, position: int = 0, *, is_of_all: bool = False
    ) -> _Failed:
        return _Failed(position, _Refusal(self._engine.as_ours(error)), is_of_all)

    def _tell_story(self, error: BaseException) -> None:
        """Of the job of a refused row, once statements are taken again."""
        if isinstance(error, RowRefused) and error.job_id is not None:
            with suppress(Exception):  # the refusal is what counts
                error.tell(self._tx.last_events(JobId(error.job_id), 8))

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
    """The transaction is lost because of the command at `position`, or of none (`is_of_all`)."""

    def __init__(self, position: int, error: _Refusal, is_of_all: bool) -> None:
        super().__init__(str(error.error))
        self.position = position
        self.error = error
        self.is_of_all = is_of_all


def _told(execute: Execute, fault: Fault) -> Execute:
    def run(sql: str, parameters: Sequence[Any]) -> Rows:
        fault("statement")
        rows = execute(sql, parameters)
        fault("executed")
        return rows

    return run


def _no_fault(point: str) -> None:
    pass
