"""The ground that the named queries of each table family stand on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gpulayer.storage.memo import Memo
from gpulayer.storage.rows import Row


class Rows(Protocol):
    """What executing a statement gives back: the part of a DB-API cursor that is used."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


Execute = Callable[[str, Sequence[Any]], Rows]


class Queries:
    """One statement at a time on one connection, by whoever holds that connection."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def _one(self, sql: str, *parameters: Any) -> Row | None:
        row: Row | None = self._execute(sql, parameters).fetchone()
        return row

    def _all(self, sql: str, *parameters: Any) -> list[Row]:
        return self._execute(sql, parameters).fetchall()

    def _number(self, sql: str, *parameters: Any) -> int:
        row = self._one(sql, *parameters)
        return int(row[0]) if row is not None else 0


class Writes(Queries):
    """The same inside the one write transaction."""

    def __init__(self, execute: Execute, memo: Memo) -> None:
        super().__init__(execute)
        self._memo = memo
