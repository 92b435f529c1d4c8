"""Log segments: what a task said, as records in one file that only grows.

A record is the header `>BBHIdI` (magic, stream, rank, index, Unix time, length) and that many raw
bytes. The file starts empty and is cut at the last whole record after a crash, so its length in
bytes is the one number that agent and plane need to go on where they were.
"""

from __future__ import annotations

import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAGIC = 0xA7
NOTE, STDOUT, STDERR, BOTH, PREPARE = 0, 1, 2, 3, 4
"""Streams: a sentence of ours, standard output, standard error, a terminal or both at once,
and what was printed while the job was prepared."""

LAUNCHER = 0xFFFF
"""The rank of what the launcher of a distributed job says, which is none."""

HEADER = struct.Struct(">BBHIdI")
MAX_RECORD = 1 << 20


class Record:
    """One record. `time` is in seconds since the Unix epoch."""

    __slots__ = ("data", "index", "rank", "stream", "time")

    def __init__(self, stream: int, rank: int, index: int, time: float, data: bytes) -> None:
        self.stream = stream
        self.rank = rank
        self.index = index
        self.time = time
        self.data = data


class Reader:
    """Decodes segment bytes in any split. ValueError where they are no segment."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Record]:
        """Every record that is whole by now."""
        self._buffer += data
        whole = 0
        try:
            for end, record in _records(self._buffer):
                whole = end
                yield record
        finally:
            del self._buffer[:whole]


def encode(stream: int, rank: int, index: int, time: float, data: bytes) -> bytes:
    return HEADER.pack(MAGIC, stream, rank, index, time, len(data)) + data


def decode(data: bytes) -> list[Record]:
    """The whole records of `data`; a torn last one is left out."""
    return list(Reader().feed(data))


def whole(data: bytes) -> int:
    """How many of the bytes are whole records."""
    end = 0
    while end + HEADER.size <= len(data):
        length = HEADER.unpack_from(data, end)[5]
        if end + HEADER.size + length > len(data):
            break
        end += HEADER.size + length
    return end


def only(data: bytes, index: int) -> bytes:
    """Of whole records, those of one index, as they are."""
    pieces, at = [], 0
    while at < len(data):
        _, _, _, whose, _, length = HEADER.unpack_from(data, at)
        end = at + HEADER.size + length
        if whose == index:
            pieces.append(data[at:end])
        at = end
    return b"".join(pieces)


def first_whole(data: bytes) -> int:
    """Where the first record begins in bytes that were cut off anywhere before it: from there on
    record follows record to the end. Their length where there is none."""
    at = data.find(MAGIC)
    while at >= 0:
        end = at
        while len(data) - end >= HEADER.size:
            magic, stream, _, _, _, length = HEADER.unpack_from(data, end)
            if magic != MAGIC or stream > PREPARE or length > MAX_RECORD:
                break
            end += HEADER.size + length
        else:
            if end > at and (end >= len(data) or data[end] == MAGIC):
                return at
        at = data.find(MAGIC, at + 1)
    return len(data)


def repair(fd: int) -> int:
    """Cuts a torn last record off the open file and returns the length that is left."""
    size = os.fstat(fd).st_size
    whole = 0
    while whole + HEADER.size <= size:
        magic, _, _, _, _, length = HEADER.unpack(os.pread(fd, HEADER.size, whole))
        if magic != MAGIC or length > MAX_RECORD or whole + HEADER.size + length > size:
            break
        whole += HEADER.size + length
    if whole != size:
        os.ftruncate(fd, whole)
    return whole


class Writer:
    """Appends to one task's segment.

    Keeps the head of at most `limit` bytes of output and counts the rest. A full disk never
    raises: what can't be written is counted, and a note says so as soon as there is room.
    `grown` is called after every change of `size`.
    """

    def __init__(
        self,
        path: str,
        *,
        index: int,
        limit: int | None,
        clock: Callable[[], float],
        rank: int = 0,
        grown: Callable[[], object] = lambda: None,
    ) -> None:
        self._path = path
        self.fd = -1
        """-1 while there is no file: who says nothing needs none."""
        self.size = 0
        if os.access(path, os.F_OK):
            self._open()
        self._index = index
        self._rank = rank
        self._clock = clock
        self._grown = grown
        self._room = None if limit is None else max(0, limit - self.size)
        self._cut = 0
        self._unwritten = 0
        self._why = ""

    def write(
        self, stream: int, data: bytes, rank: int | None = None, index: int | None = None
    ) -> None:
        """Output of the job, already redacted. `rank`, `index`: whose, where it is not the task's
        own."""
        kept = data if self._room is None else data[: self._room]
        self._append(stream, kept, rank, index)
        if self._room is not None:
            self._room -= len(kept)
        if len(kept) < len(data):
            if not self._cut:
                self.note("the log has reached its limit; what follows is not kept")
            self._cut += len(data) - len(kept)

    def note(self, text: str) -> None:
        """A sentence of ours between the job's own bytes."""
        self._append(NOTE, text.encode("utf-8", "replace") + b"\n")

    def finish(self) -> None:
        """Says what is missing, if anything. The descriptor stays open for readers."""
        if self._cut:
            self.note(f"{self._cut} bytes of output were not kept: over the log limit")
            self._cut = 0
        self._own_up()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.fd = os.open(self._path, flags, 0o600)
        self.size = repair(self.fd)

    def _append(
        self, stream: int, data: bytes, rank: int | None = None, index: int | None = None
    ) -> None:
        if not data:
            return
        if (self._unwritten and not self._own_up()) or not self._put(stream, data, rank, index):
            self._unwritten += len(data)

    def _own_up(self) -> bool:
        if self._unwritten:
            text = f"{self._unwritten} bytes of output were not kept: {self._why}\n"
            if not self._put(NOTE, text.encode()):
                return False
            self._unwritten = 0
        return True

    def _put(
        self, stream: int, data: bytes, rank: int | None = None, index: int | None = None
    ) -> bool:
        whose = self._rank if rank is None else rank, self._index if index is None else index
        header = HEADER.pack(MAGIC, stream, *whose, self._clock(), len(data))
        try:
            if self.fd < 0:
                self._open()
            written = os.writev(self.fd, (header, data))
            if written != len(header) + len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._why = (error.strerror or "error").lower()
            _truncate(self.fd, self.size)
            return False
        self.size += written
        self._grown()
        return True


class Relay:
    """Records that a task's own process makes, on their way into its segment: each keeps the
    stream and the index that it has. Bytes that are no records are left out, and a note says so."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._reader = Reader()

    def feed(self, data: bytes) -> None:
        try:
            for record in self._reader.feed(data):
                stream = record.stream if record.stream in (STDOUT, STDERR) else STDOUT
                self._writer.write(stream, record.data, index=record.index)
        except ValueError:
            self._writer.note("some output is missing here")
            self._reader = Reader()
            if left := data[first_whole(data) :]:
                self.feed(left)


def _truncate(fd: int, size: int) -> None:
    try:
        os.ftruncate(fd, size)
    except OSError:
        pass  # the torn record is cut at the next replay


def _records(buffer: bytearray) -> Iterator[tuple[int, Record]]:
    start = 0
    while len(buffer) - start >= HEADER.size:
        magic, stream, rank, index, time, length = HEADER.unpack_from(buffer, start)
        if magic != MAGIC or length > MAX_RECORD:
            raise ValueError(f"no log record at byte {start}")
        end = start + HEADER.size + length
        if len(buffer) < end:
            return
        data = bytes(memoryview(buffer)[start + HEADER.size : end])
        start = end
        yield start, Record(stream, rank, index, time, data)
