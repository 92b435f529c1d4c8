"""Which files of a folder are source, and what is left out and why.

In a repository git says what is ignored (`git ls-files`); elsewhere each `.gitignore` is read here.
Of a folder of data neither says anything. A `.gpulayerignore` at the top has the last word, and can
bring back what git leaves out. Version control, caches, virtual environments, links and what is no
file are never source.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayer.artifacts.ignoring import Rules
from gpulayer.contracts import limits
from gpulayer.contracts.safe_paths import path_fault
from gpulayer.errors import RefusedError

IGNORE_FILE = ".gpulayerignore"
_MOST_SEEN = 10 * limits.SOURCE_ENTRIES
"""A folder with more is refused without looking further."""
_GIT_SECONDS = 120
_NAMED = 3


class Found(NamedTuple):
    """One file. Sizes are of the moment at which it was looked at."""

    path: str
    size: int
    executable: bool
    stamp: tuple[int, int, int]
    """Changes whenever its bytes may have: inode, time of the bytes, time of the inode, in ns."""


@dataclass(slots=True)
class Listing:
    files: list[Found] = field(default_factory=list)
    """By path, in the order of their UTF-8 bytes."""
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)
    """Reason -> names, folders with a slash at their end. What is found everywhere is named once,
    without where."""

    def leave(self, path: str, why: str) -> None:
        if why in (_VERSION_CONTROL, _CACHE):
            path = path[path.rstrip("/").rfind("/") + 1 :]
        self.left_out.setdefault(why, {})[path] = None

    def say_left_out(self) -> str:
        """`.git/, .venv/ (virtual environment), data/ (.gitignore)`, bounded."""
        said = []
        for why, names in self.left_out.items():
            shown = ", ".join(_shown(name) for name in list(names)[:_NAMED])
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            said.append(f"{shown}{more} ({why})")
        return ", ".join(said)


def list_source(folder: str, without: Iterable[str] = (), *, is_data: bool = False) -> Listing:
    """Every source file below `folder`. `without`: real paths that are left out, with all below.
    `is_data`: git's rules are not for it.

    Raises RefusedError `source-refused`, or `too-large` when there is no end to it.
    """
    listing = Listing()
    own = Rules(_lines(os.path.join(folder, IGNORE_FILE)))
    barred = {os.path.realpath(path) for path in without}
    by_git = not is_data and _is_in_repository(folder)
    paths = _by_git(folder, own, listing) if by_git else None
    if paths is None:
        above: list[tuple[str, Rules]] | None = None if is_data else []
        _walk(folder, "", above, own, barred, listing, is_ignored=False)
    else:
        _take(folder, "", paths, own, barred, listing)
    listing.files.sort(key=lambda found: found.path.encode())
    return listing


def leaving_out(folder: str, *names: str) -> str:
    """The line that leaves these files or folders out of `folder` from now on."""
    path = os.path.relpath(os.path.join(folder, IGNORE_FILE))
    if path.startswith(os.pardir):
        path = os.path.join(folder, IGNORE_FILE)
    words = " ".join(shlex.quote(f"/{name}") for name in names)
    command = f"echo {words}" if len(names) == 1 else f"printf '%s\\n' {words}"
    return f"{command} >> {shlex.quote(path)}"


# --- git ------------------------------------------------------------------------------------


def _is_in_repository(folder: str) -> bool:
    path = os.path.realpath(folder)
    while not os.path.exists(os.path.join(path, ".git")):
        path, before = os.path.dirname(path), path
        if path == before:
            return False
    return True


def _by_git(folder: str, own: Rules, listing: Listing) -> list[str] | None:
    """What git knows or would add, and what it leaves out. None where git is of no help: it is
    not here, does not trust the folder, or ignores all of it."""
    ignored = ("-o", "-i", "--exclude-standard")
    asked = [
        _ls_files(folder, "-c", "-o", "--exclude-standard"),
        _ls_files(folder, *ignored, "--directory"),
        *([_ls_files(folder, *ignored)] if own.brings_back else []),
    ]
    answers = [_answer(child) for child in asked]
    kept, left, back = answers[0], answers[1], answers[-1] if own.brings_back else []
    if not kept or left is None or back is None:
        return None
    back = [path for path in back if own.fate(path) is False]
    for name in left:
        if never_source(name.rstrip("/").rpartition("/")[2]) is None:
            listing.leave(name, ".gitignore")
    return [*kept, *back]


def _ls_files(folder: str, *options: str) -> subprocess.Popen[bytes] | None:
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


def _answer(child: subprocess.Popen[bytes] | None) -> list[str] | None:
    if child is None:
        return None
    try:
        out, _ = child.communicate(timeout=_GIT_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return None
    if child.returncode:
        return None
    return [os.fsdecode(path) for path in dict.fromkeys(out.split(b"\0")) if path]


def _take(
    folder: str, below: str, paths: list[str], own: Rules, barred: set[str], listing: Listing
) -> None:
    environments = {
        path.removesuffix("pyvenv.cfg") for path in paths if path.endswith("/pyvenv.cfg")
    }
    for path in paths:
        if _taken(path, environments, listing):
            continue
        if own.fate(path):
            listing.leave(path, IGNORE_FILE)
        elif not _barred(os.path.join(folder, path), barred):
            _add(folder, path.rstrip("/"), barred, listing)
    if os.path.exists(os.path.join(folder, ".git")):
        listing.leave(".git/", _VERSION_CONTROL)


def _taken(path: str, environments: set[str], listing: Listing) -> bool:
    """Whether the folder that it is in, or its own name, keeps it from being source."""
    at = -1
    while (at := path.find("/", at + 1)) >= 0:
        name = path[: at + 1]
        why = never_source(name[:-1].rpartition("/")[2])
        why = why or (_ENVIRONMENT if name in environments else None)
        if why:
            listing.leave(name, why)
            return True
    why = never_source(path.rpartition("/")[2])
    if why:
        listing.leave(path, why)
    return why is not None


def _barred(path: str, barred: set[str]) -> bool:
    return bool(barred) and any(
        path == other or path.startswith(other + os.sep) for other in barred
    )


# --- our own walk ---------------------------------------------------------------------------


def _walk(
    folder: str,
    below: str,
    above: list[tuple[str, Rules]] | None,
    own: Rules,
    barred: set[str],
    listing: Listing,
    *,
    is_ignored: bool,
) -> None:
    """`above`: the rules of each `.gitignore` so far, with the folder that it is for; None: they
    do not count.
    `is_ignored`: one of them leaves this folder out; we are here for what is brought back."""
    try:
        with os.scandir(os.path.join(folder, below)) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(folder, below, error) from error
    names = {entry.name for entry in entries}
    if below and ("pyvenv.cfg" in names or "conda-meta" in names):
        listing.leave(below, _ENVIRONMENT)
        return
    if above is not None and ".gitignore" in names:
        lines = _lines(os.path.join(folder, below, ".gitignore"))
        above = [*above, (below, Rules(lines))]
    for entry in entries:
        path = below + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        why = never_source(entry.name)
        verdict = own.leaves_out(path, is_folder=is_folder)
        ignored = verdict is None and (is_ignored or _by_rules(path, is_folder, above or []))
        if why is None and (verdict or ignored):
            why = IGNORE_FILE if verdict else ".gitignore"
        if why and not is_ignored:
            listing.leave(path + "/" * is_folder, why)
        if _barred(os.path.realpath(entry.path), barred):
            continue
        if is_folder and (not why or (ignored and own.brings_back)):
            _walk(folder, path + "/", above, own, barred, listing, is_ignored=ignored)
        elif not is_folder and not why:
            _add(folder, path, barred, listing)


def _by_rules(path: str, is_folder: bool, above: list[tuple[str, Rules]]) -> bool:
    for below, rules in reversed(above):
        verdict = rules.leaves_out(path.removeprefix(below), is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


# --- one entry ------------------------------------------------------------------------------


def _add(folder: str, path: str, barred: set[str], listing: Listing) -> None:
    whole = os.path.join(folder, path)
    try:
        found = os.lstat(whole)
    except FileNotFoundError:
        return  # git knows it, and it was deleted
    except OSError as error:
        raise _unreadable(folder, path, error) from error
    if stat.S_ISDIR(found.st_mode):  # a repository inside this one
        inner = list_source(whole, barred)
        listing.files += [one._replace(path=f"{path}/{one.path}") for one in inner.files]
        return
    if not stat.S_ISREG(found.st_mode):
        listing.leave(path, "a link" if stat.S_ISLNK(found.st_mode) else "not a file")
        return
    if path_fault(path) is not None:
        listing.leave(path, "a name that a file elsewhere cannot have")
        return
    if len(listing.files) >= _MOST_SEEN:
        raise RefusedError(
            "too-large",
            f"{folder} has over {_MOST_SEEN:,} files; up to {limits.SOURCE_ENTRIES:,} are sent",
            hint="gpulayer help too-large",
        )
    stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
    executable = bool(found.st_mode & stat.S_IXUSR)
    listing.files.append(Found(path, found.st_size, executable, stamp))


def never_source(name: str) -> str | None:
    """Why no file or folder of that name is source; None where it may be."""
    return _NEVER.get(name) or (_CACHE if name.endswith((".pyc", ".pyo")) else None)


def _lines(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            yield from file
    except (FileNotFoundError, IsADirectoryError):
        return


def _unreadable(folder: str, path: str, error: OSError) -> RefusedError:
    return RefusedError(
        "source-refused",
        f"{_shown(path) or folder} cannot be read, so the folder is not sent",
        why=error.strerror or str(error),
        hint=leaving_out(folder, path.rstrip("/")) if path else "ls",
    )


def _shown(name: str) -> str:
    return name.encode("unicode_escape", "surrogatepass").decode("ascii")[:200]


_VERSION_CONTROL, _CACHE, _ENVIRONMENT = "version control", "cache", "virtual environment"
_NEVER = {
    **dict.fromkeys(".git .hg .svn .bzr .jj .pijul _darcs CVS".split(), _VERSION_CONTROL),
    **dict.fromkeys(
        "__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox "
        ".ipynb_checkpoints .DS_Store".split(),
        _CACHE,
    ),
}
