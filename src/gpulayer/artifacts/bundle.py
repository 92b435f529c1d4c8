"""The source of a job as one archive that is equal wherever the folder is equal."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from gpulayer.artifacts import zip_layout as layout
from gpulayer.artifacts.listing import Found, Listing, leaving_out, list_source
from gpulayer.artifacts.seen import NOTHING_SEEN, Asked, Contents, Seen
from gpulayer.artifacts.strict_zip import one_name
from gpulayer.artifacts.zip_layout import Entry
from gpulayer.contracts import limits
from gpulayer.contracts.durations import bytes_text
from gpulayer.contracts.ids import Digest
from gpulayer.errors import NotFoundError, RefusedError

PIECE = 1 << 20
_LARGEST = 10


@dataclass(frozen=True, slots=True)
class Bundle:
    """A folder as it was when it was looked at; its bytes are read again when they are sent."""

    folder: str
    digest: Digest
    size: int
    """Bytes of the archive."""
    entries: tuple[Entry, ...]
    left_out: str
    """What was left out and why, in a few words."""

    def say(self, what: str = "bundle") -> str:
        """`bundle: 14 files, 38 kB (left out: .git/ (version control))`."""
        count = len(self.entries)
        left = f" (left out: {self.left_out})" if self.left_out else ""
        return f"{what}: {count} file{'s' * (count != 1)}, {bytes_text(self.size)}{left}"

    def chunks(self) -> Iterator[bytes]:
        """The archive. Raises RefusedError `source-refused` when a file is no longer as it was."""
        for entry in self.entries:
            yield layout.local_header(entry)
            yield from self.content(entry)
        yield layout.tail(self.entries)

    def content(self, entry: Entry) -> Iterator[bytes]:
        """The bytes of one file."""
        size, crc = 0, 0
        for data in _pieces(self.folder, entry.path, entry.size):
            size, crc = size + len(data), zlib.crc32(data, crc)
            yield data
        if (size, crc) != (entry.size, entry.crc):
            _changed(self.folder, entry.path)

    def write(self, path: str | os.PathLike[str]) -> None:
        """The archive as a file, which must not exist yet."""
        with open(path, "xb") as file:
            file.writelines(self.chunks())


def build_source_bundle(
    folder: str | os.PathLike[str],
    *,
    within: str = "",
    without: Iterable[str] = (),
    seen: Seen = NOTHING_SEEN,
    home: str | None = None,
    is_data: bool = False,
) -> Bundle:
    """The source files below `folder` as an archive; see `listing` for which they are.

    Same content, same bytes, same digest, on every system. `within`: only this folder below it, by
    the same names. `without`: paths that are left out. `seen` remembers digests between calls.
    `home`: what counts as the home folder. `is_data`: git's rules are not for it, and it may be
    larger. Raises RefusedError `source-refused` for a folder that cannot be sent, `too-large` past
    the limits; NotFoundError where there is none.
    """
    folder = os.path.realpath(folder)
    _require_own_folder(folder, os.path.expanduser("~") if home is None else home)
    key = os.path.join(folder, within)
    barred = sorted(map(os.path.realpath, without))
    asked = Asked(folder, key, repr((is_data, barred)))
    same = seen.same(asked)
    if same is not None:
        entries, digest = same.contents
        return Bundle(folder, digest, layout.size_of(entries), entries, same.left_out)
    listing = _listed(folder, within, without, is_data)
    most = limits.FOLDER_BYTES if is_data else limits.SOURCE_BYTES
    require_limits(folder, listing, most)
    twins = one_name(found.path for found in listing.files)
    if twins is not None:
        raise RefusedError(
            "source-refused",
            f"{twins[0]!r} and {twins[1]!r} are one name on some systems",
            why="so the folder could not be unpacked there",
            hint=leaving_out(folder, twins[0]),
        )
    contents = seen.look(asked, listing.files) or _read(folder, listing.files)
    seen.keep(asked, listing, contents)
    entries, digest = contents
    return Bundle(folder, digest, layout.size_of(entries), entries, listing.say_left_out())


def _require_own_folder(folder: str, home: str) -> None:
    if not os.path.isdir(folder):
        raise NotFoundError("file-not-found", f"{folder} is not a folder", hint="ls")
    inside = os.path.realpath(home)
    if os.path.commonpath((folder, inside)) == folder:
        what = (
            "your home folder" if folder == inside else f"{folder}, which holds your home folder,"
        )
        raise RefusedError(
            "source-refused",
            f"{what} is not sent as source",
            why="it holds more than one program: keys, caches, other work",
            hint="mkdir project",
        )


def _listed(folder: str, within: str, without: Iterable[str], is_data: bool) -> Listing:
    listing = list_source(os.path.join(folder, within), without, is_data=is_data)
    if within:
        listing.files = [f._replace(path=f"{within}/{f.path}") for f in listing.files]
    return listing


def require_limits(folder: str, listing: Listing, most: int) -> None:
    """RefusedError `too-large` for a folder that is past them, with the ten largest files and the
    line that leaves enough out."""
    entries = [Entry(found.path, found.size, 0, False) for found in listing.files]
    size, count = layout.size_of(entries), len(entries)
    if size <= most and count <= limits.SOURCE_ENTRIES:
        return
    largest = sorted(entries, key=lambda entry: (-entry.size, entry.path))[:_LARGEST]
    raise RefusedError(
        "too-large",
        f"{folder} holds {count:,} files of {bytes_text(size)} in all; up to "
        f"{limits.SOURCE_ENTRIES:,} files and {bytes_text(most)} are sent",
        why="the largest:\n"
        + "\n".join(f"{bytes_text(entry.size):>8}  {entry.path}" for entry in largest),
        hint=leaving_out(folder, *_heaviest(entries, size, most)),
        details={"largest": [[entry.path, entry.size] for entry in largest]},
    )


def _heaviest(entries: Sequence[Entry], size: int, most: int) -> list[str]:
    """As many of the heaviest names at the top as must be left out."""
    weights: dict[str, tuple[int, int]] = {}
    for entry in entries:
        top = entry.path.partition("/")[0]
        files, held = weights.get(top, (0, 0))
        weights[top] = files + 1, held + entry.size
    is_many = len(entries) > limits.SOURCE_ENTRIES
    heaviest = sorted(weights, key=lambda top: weights[top][not is_many], reverse=True)
    count, named = len(entries), []
    while heaviest and (size > most or count > limits.SOURCE_ENTRIES):
        named.append(heaviest.pop(0))
        files, held = weights[named[-1]]
        count, size = count - files, size - held
    return named


def _read(folder: str, files: Sequence[Found]) -> Contents:
    """The checksum of each file and the digest of the whole."""
    entries = []
    whole = hashlib.sha256()
    for found in files:
        entry, pieces = _checked(folder, found)
        whole.update(layout.local_header(entry))
        for data in pieces:
            whole.update(data)
        entries.append(entry)
    whole.update(layout.tail(entries))
    return Contents(tuple(entries), Digest(whole.hexdigest()))


def _checked(folder: str, found: Found) -> tuple[Entry, Iterable[bytes]]:
    if found.size <= PIECE:
        data = b"".join(_pieces(folder, found.path, found.size))
        if len(data) != found.size:
            _changed(folder, found.path)
        return Entry(found.path, found.size, zlib.crc32(data), found.executable), (data,)
    size, crc = 0, 0
    for data in _pieces(folder, found.path, found.size):
        size, crc = size + len(data), zlib.crc32(data, crc)
    if size != found.size:
        _changed(folder, found.path)
    entry = Entry(found.path, found.size, crc, found.executable)
    return entry, _pieces(folder, found.path, found.size)


def _pieces(folder: str, name: str, size: int) -> Iterator[bytes]:
    """Up to one byte more than `size`, so that a file that grows is noticed and ends."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(os.path.join(folder, name), flags)
        with open(descriptor, "rb", buffering=0) as file:
            left = size + 1
            while left and (data := file.read(min(PIECE, left))):
                left -= len(data)
                yield data
    except OSError as error:
        raise RefusedError(
            "source-refused",
            f"{name!r} cannot be read, so the folder is not sent",
            why=error.strerror or str(error),
            hint=leaving_out(folder, name),
        ) from error


def _changed(folder: str, name: str) -> NoReturn:
    raise RefusedError(
        "source-refused",
        f"{name!r} changed while it was read, so the folder is not sent",
        why="a job gets a folder as it was at one moment",
        hint=leaving_out(folder, name),
    )
