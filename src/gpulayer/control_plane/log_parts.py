"""A part of a job's log, and the cursors between parts: numbers with dots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpulayer.contracts.records import Event
from gpulayer.errors import NotFoundError
from gpulayer.runtime import segments

_CURSOR, _DIGITS = 64 << 10, 18
"""Longest cursor that is read, and longest number in it."""


class LogPart(NamedTuple):
    """Framed bytes of a job's log."""

    pieces: tuple[bytes, ...]
    """From where the cursor was: of each node of a gang its own, else one."""
    next: str
    """Where to go on."""
    eof: bool
    """Nothing will follow."""
    size: int | None = None
    """Bytes that there are in all, where the cursor is one offset."""
    cursor_at: Callable[[int, int], str] | None = None
    """Of an array: the cursor so many bytes into one of the pieces."""

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)


def removed(removal: Event, offsets: list[int], had: int) -> LogPart:
    """A removed log, which had so many bytes: to who begins, a note; who was in the middle of it
    cannot have the rest."""
    if 0 < sum(offsets) < had:
        raise NotFoundError(
            "log-removed",
            f"the log of {removal.job_id} was removed while it was read",
            job_id=removal.job_id,
            why=removal.message,
            hint=f"gpulayer events {removal.job_id}",
        )
    if any(offsets):
        return LogPart((b"",), cursor_of(offsets), True, 0)
    text = f"{removal.message}\n".encode()
    note = segments.encode(segments.NOTE, 0, 0, removal.at, text)
    return LogPart((note,), str(len(note)), True, 0)


def offsets_of(cursor: str) -> list[int]:
    """What a cursor holds. Anything else begins at the beginning."""
    parts = cursor[:_CURSOR].split(".")
    return [int(p[:_DIGITS]) if p.isascii() and p.isdigit() else 0 for p in parts]


def cursor_of(offsets: Iterable[int]) -> str:
    return ".".join(map(str, offsets))
