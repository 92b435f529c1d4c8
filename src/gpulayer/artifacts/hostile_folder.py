"""Walks a folder in which a job may have left anything: links, pipes, devices, odd names, or a
process of another user that still writes.

Every folder is opened from its parent's descriptor and every file without following links
(openat(2), O_NOFOLLOW), so that nothing outside the folder is ever read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

MAX_NAME_BYTES = 1024
"""Of a whole path below the folder."""

MAX_DEPTH = 64
LINK = "a link"

Found = tuple[str, int | None, str]
"""(path, open descriptor or None, why not)"""


def files(folder: str, wanted: Callable[[str], bool] = lambda path: True) -> Iterator[Found]:
    """Each entry that is no folder, by name. `wanted` is asked for a path, with a slash at its end
    for a folder; what it does not want is passed over. The descriptor is the taker's to close.

    Raises FileNotFoundError where there is no folder, OSError where there is something else.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield from _walk(top, "", 0, wanted)
    finally:
        os.close(top)


def _walk(folder: int, below: str, depth: int, wanted: Callable[[str], bool]) -> Iterator[Found]:
    for name in sorted(os.listdir(folder)):
        path = f"{below}{name}"
        try:
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError as error:
            yield path, None, _said(error)
            continue
        is_folder = stat.S_ISDIR(kind)
        if not wanted(path + "/" * is_folder):
            continue
        why = _bad_name(path, name)
        if why:
            yield path, None, why
            continue
        try:
            if is_folder and depth < MAX_DEPTH:
                inner = _open(name, folder, os.O_DIRECTORY)
                try:
                    yield from _walk(inner, f"{path}/", depth + 1, wanted)
                finally:
                    os.close(inner)
            elif stat.S_ISREG(kind):
                yield path, _open(name, folder, os.O_NONBLOCK), ""
            else:
                yield path, None, _KINDS.get(stat.S_IFMT(kind), "not a file")
        except OSError as error:
            yield path, None, _said(error)


def shown(path: str) -> str:
    return path.encode("unicode_escape", "surrogatepass").decode("ascii")[:200]


def _said(error: OSError) -> str:
    return (error.strerror or "cannot be read").lower()


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


_KINDS = {
    stat.S_IFLNK: LINK,
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "nested too deeply",
}
