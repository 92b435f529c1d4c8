"""Reading no more than there is."""

from __future__ import annotations

from .limits import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

PIECE = 1 << 20


def exactly(file: BinaryIO, size: int) -> bytes:
    """The next bytes, all of them; `size` is bounded by who calls."""
    found = file.read(size)
    if len(found) != size:
        raise Unreadable("it is damaged: it ends too early")
    return found


def filled(file: BinaryIO, size: int) -> bytearray:
    """The same in memory that can be written. Who calls knows that the file has as many."""
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        count = file.readinto(view[at : at + (64 << 20)])  # type: ignore[attr-defined]
        if not count:
            raise Unreadable("it is damaged: it ends too early")
        at += count
    return found


def count_of(shape: object, most: int = 64) -> int:
    """How many elements a shape has. Raises Unreadable for what is none."""
    if not isinstance(shape, (list, tuple)) or len(shape) > most:
        raise Unreadable("it is damaged: it has no shape")
    count = 1
    for size in shape:
        if type(size) is not int or not 0 <= size < 1 << 62:
            raise Unreadable("it is damaged: it has no shape")
        count *= size
    return count
