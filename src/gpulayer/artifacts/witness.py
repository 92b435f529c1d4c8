"""What a listing was told about a folder, so that the same can be asked again.

A listing follows from the names in its folders, from the lines of its ignore files, from what git
answers and from what each name is; from nothing else. While all of that is told again, so is the
listing, and no rule need be matched. No time of a folder is believed for it, since not every file
system keeps them: names are read again, and git is asked again. It costs a tenth of a listing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
from collections.abc import Iterable, Sequence

LINK = str(stat.S_IFLNK)

_GIT_SECONDS = 120
_BETWEEN = "\0\0\0"
"""No answer has this in it: a name is never empty."""

Told = tuple[str, str, tuple[str, ...], str]
"""Kind of question, path, further words, and a digest of the answer."""


class Witness:
    """Answers, and keeps what it answered."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def names(self, folder: str) -> list[str]:
        """What is in it, folders with a slash at their end. Raises OSError."""
        answer = self._told("names", folder)
        return answer.split("\0") if answer else []

    def lines(self, path: str) -> list[str]:
        """Of a text; none where there is no such file. Raises OSError."""
        return (self._told("text", path) or "").split("\n")

    def has(self, path: str) -> bool:
        return self._told("there", path) is not None

    def git_files(self, folder: str, *asked: str) -> list[list[str] | None]:
        """What `git ls-files` says to each of these options, asked at the same time. None where it
        says nothing: it is not here, does not trust the folder, or failed."""
        answer = self._told("git", folder, asked) or ""
        return [_paths(one) for one in answer.split(_BETWEEN)]

    def kind(self, path: str) -> str:
        """`LINK` where it is one."""
        return self._told("kind", path) or ""

    def odd(self, path: str, found: os.stat_result | None) -> None:
        """Note what a path is that is no file to be sent."""
        self.told.append(("kind", path, (), _digest(_kind(found))))

    def _told(self, kind: str, path: str, words: tuple[str, ...] = ()) -> str | None:
        answer = _answer(kind, path, words)
        self.told.append((kind, path, words, _digest(answer)))
        return answer


def tells_again(told: Iterable[Told]) -> bool:
    """Whether each question has the answer that it had."""
    try:
        return all(
            _digest(_answer(kind, path, words)) == digest for kind, path, words, digest in told
        )
    except OSError:
        return False


def stats(folder: str, paths: Sequence[str]) -> list[os.stat_result] | None:
    """Of each file below a folder, links not followed; None where one is gone."""
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return [os.stat(path, dir_fd=at, follow_symlinks=False) for path in paths]
        finally:
            os.close(at)
    except OSError:
        return None


def _answer(kind: str, path: str, words: Sequence[str]) -> str | None:
    match kind:
        case "names":
            return _names(path)
        case "text":
            return _text(path)
        case "there":
            return "" if os.path.exists(path) else None
        case "git":
            return _git(path, words)
        case _:
            return _kind(_lstat(path))


def _digest(answer: str | None) -> str:
    said = "-" if answer is None else "+" + answer
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _names(folder: str) -> str:
    with os.scandir(folder) as found:
        return "\0".join(
            [
                entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in found
            ]
        )


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _kind(found: os.stat_result | None) -> str:
    return "none" if found is None else str(stat.S_IFMT(found.st_mode))


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


# --- git ------------------------------------------------------------------------------------


def _paths(answer: str) -> list[str] | None:
    if not answer.startswith("+"):
        return None
    return [path for path in dict.fromkeys(answer[1:].split("\0")) if path]


def _git(folder: str, asked: Sequence[str]) -> str:
    children = [_ls_files(folder, options.split()) for options in asked]
    return _BETWEEN.join([_answer_of(child) for child in children])


def _ls_files(folder: str, options: Iterable[str]) -> subprocess.Popen[bytes] | None:
    # A repository may name a program to run (core.fsmonitor), and so may variables of a hook.
    words = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", *options]
    names = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
    environ = {name: value for name, value in os.environ.items() if name not in names}
    try:
        return subprocess.Popen(
            words, cwd=folder, env=environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        return None


def _answer_of(child: subprocess.Popen[bytes] | None) -> str:
    if child is None:
        return ""
    try:
        out, _ = child.communicate(timeout=_GIT_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return ""
    return "" if child.returncode else "+" + os.fsdecode(out).removesuffix("\0")
