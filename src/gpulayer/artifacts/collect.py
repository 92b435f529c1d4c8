"""A job's output folder as artifacts.

The folder is hostile ground: the job may have left links, pipes, devices, odd names, or a process
of another user that still writes. Every folder is opened from its parent's descriptor and every
file without following links (openat(2), O_NOFOLLOW), so that nothing outside the folder is ever
read. What is left out is named, with the reason.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_FILES = 10_000
MAX_FILE_BYTES = 50 << 30
MAX_NAME_BYTES = 1024
"""Of a whole path below the folder."""

MAX_DEPTH = 64
_NAMED = 3
"""How many left-out files the note names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Collected:
    outputs: tuple[Mapping[str, Any], ...]
    """[{path, digest, size, executable}], sorted by path."""
    note: str
    """One sentence about what was left out, or nothing."""


def outputs(folder: str, put: Callable[[str], str]) -> Collected:
    """Store every regular file below `folder` by `put(path) -> digest`.

    `put` is given a path that leads to the open file itself, whatever its name means by now. An
    `OSError` of `put` other than `ConnectionError` leaves that file out.
    """
    kept: list[Mapping[str, Any]] = []
    left: list[str] = []
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return Collected((), "")
    except OSError:
        return Collected((), "the output folder was replaced by something else")
    try:
        for path, descriptor, why in _walk(top, "", 0):
            if descriptor is None:
                left.append(f"{_shown(path)} ({why})")
                continue
            try:
                if len(kept) >= MAX_FILES:
                    left.append(f"{_shown(path)} (over {MAX_FILES} files)")
                else:
                    kept.append(_store(path, descriptor, put))
            except ConnectionError:
                raise
            except OSError as error:
                left.append(f"{_shown(path)} ({error.strerror or error})")
            finally:
                os.close(descriptor)
    finally:
        os.close(top)
    return Collected(tuple(kept), _note(left))


def _walk(folder: int, below: str, depth: int) -> Iterator[tuple[str, int | None, str]]:
    """(path, open descriptor or None, why not) for each entry that is no folder."""
    for name in sorted(os.listdir(folder)):
        path = f"{below}{name}"
        why = _bad_name(path, name)
        if why:
            yield path, None, why
            continue
        try:
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind) and depth < MAX_DEPTH:
                inner = _open(name, folder, os.O_DIRECTORY)
                try:
                    yield from _walk(inner, f"{path}/", depth + 1)
                finally:
                    os.close(inner)
            elif stat.S_ISREG(kind):
                yield path, _open(name, folder, os.O_NONBLOCK), ""
            else:
                yield path, None, _KINDS.get(stat.S_IFMT(kind), "not a file")
        except OSError as error:
            yield path, None, (error.strerror or "cannot be read").lower()


def _store(path: str, descriptor: int, put: Callable[[str], str]) -> Mapping[str, Any]:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "it was replaced while it was read")
    if found.st_size > MAX_FILE_BYTES:
        raise OSError(0, f"larger than {MAX_FILE_BYTES >> 30} GiB")
    digest = put(f"/dev/fd/{descriptor}")
    if os.fstat(descriptor).st_size != found.st_size:
        found = os.fstat(descriptor)  # it grew: once more, then it is as good as it gets
        digest = put(f"/dev/fd/{descriptor}")
    return {
        "path": path,
        "digest": digest,
        "size": found.st_size,
        "executable": bool(found.st_mode & stat.S_IXUSR),
    }


def _open(name: str, folder: int, flags: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)


def _bad_name(path: str, name: str) -> str:
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if len(raw) > MAX_NAME_BYTES:
        return "its name is too long"
    if "\\" in name or not name.isprintable():
        return "its name holds characters that a file elsewhere cannot have"
    return ""


def _note(left: list[str]) -> str:
    if not left:
        return ""
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"not kept as output: {', '.join(left[:_NAMED])}{more}"


def _shown(path: str) -> str:
    return path.encode("unicode_escape", "surrogatepass").decode("ascii")[:200]


_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "nested too deeply",
}
