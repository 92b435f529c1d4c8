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
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gpulayer.artifacts.ignoring import Rules
from gpulayer.artifacts.witness import LINK, Witness
from gpulayer.contracts import limits
from gpulayer.contracts.safe_paths import path_fault
from gpulayer.errors import RefusedError

IGNORE_FILE = ".gpulayerignore"
_MOST_SEEN = 10 * limits.SOURCE_ENTRIES
"""A folder with more is refused without looking further."""
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
    witness: Witness = field(default_factory=Witness)
    """Of what it was told, and so follows from."""

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


def list_source(
    folder: str,
    without: Iterable[str] = (),
    *,
    is_data: bool = False,
    witness: Witness | None = None,
) -> Listing:
    """Every source file below `folder`. `without`: paths that are left out, with all below.
    `is_data`: git's rules are not for it. `witness` is asked, and keeps what it answered.

    Raises RefusedError `source-refused`, or `too-large` when there is no end to it.
    """
    folder = os.path.realpath(folder)
    listing = Listing(witness=witness or Witness())
    own = _rules(folder, IGNORE_FILE, listing)
    barred = {os.path.realpath(path) for path in without}
    by_git = not is_data and _is_in_repository(folder, listing.witness)
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


def _is_in_repository(path: str, witness: Witness) -> bool:
    while not witness.has(os.path.join(path, ".git")):
        path, before = os.path.dirname(path), path
        if path == before:
            return False
    return True


def _by_git(folder: str, own: Rules, listing: Listing) -> list[str] | None:
    """What git knows or would add, and what it leaves out. None where git is of no help: it is
    not here, does not trust the folder, or ignores all of it."""
    asked = ["-c -o --exclude-standard", "-o -i --exclude-standard --directory"]
    if own.brings_back:
        asked.append("-o -i --exclude-standard")
    answers = listing.witness.git_files(folder, *asked)
    kept, left, back = answers[0], answers[1], answers[-1] if own.brings_back else []
    if not kept or left is None or back is None:
        return None
    back = [path for path in back if own.fate(path) is False]
    for name in left:
        if never_source(name.rstrip("/").rpartition("/")[2]) is None:
            listing.leave(name, ".gitignore")
    return [*kept, *back]


def _take(
    folder: str, below: str, paths: list[str], own: Rules, barred: set[str], listing: Listing
) -> None:
    environments = {
        path.removesuffix("pyvenv.cfg") for path in paths if path.endswith("/pyvenv.cfg")
    }
    links: dict[str, bool] = {"": False}
    for path in paths:
        if _taken(path, environments, listing):
            continue
        if _is_below_link(folder, path.rstrip("/").rpartition("/")[0], links, listing):
            continue
        if own.fate(path):
            listing.leave(path, IGNORE_FILE)
        elif not _barred(os.path.join(folder, path), barred):
            _add(folder, path.rstrip("/"), barred, listing)
    if listing.witness.has(os.path.join(folder, ".git")):
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


def _is_below_link(folder: str, below: str, links: dict[str, bool], listing: Listing) -> bool:
    """Whether `below` is a link, or in one: git goes on knowing what was in a folder that gave its
    name to a link, and what is there now is not of this folder."""
    if below not in links:
        links[below] = _is_below_link(folder, below.rpartition("/")[0], links, listing)
        if not links[below]:
            links[below] = listing.witness.kind(os.path.join(folder, below)) == LINK
            if links[below]:
                listing.leave(below, "a link")
    return links[below]


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
        names = set(listing.witness.names(os.path.join(folder, below)))
    except OSError as error:
        raise _unreadable(folder, below, error) from error
    if below and not names.isdisjoint(("pyvenv.cfg", "conda-meta", "conda-meta/")):
        listing.leave(below, _ENVIRONMENT)
        return
    if above is not None and ".gitignore" in names:
        above = [*above, (below, _rules(folder, below + ".gitignore", listing))]
    for shown in sorted(names):
        name = shown.removesuffix("/")
        path = below + name
        is_folder = name != shown
        why = never_source(name)
        verdict = own.leaves_out(path, is_folder=is_folder)
        ignored = verdict is None and (is_ignored or _by_rules(path, is_folder, above or []))
        if why is None and (verdict or ignored):
            why = IGNORE_FILE if verdict else ".gitignore"
        if why and not is_ignored:
            listing.leave(below + shown, why)
        if _barred(os.path.join(folder, path), barred):
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
    except (FileNotFoundError, NotADirectoryError):
        listing.witness.odd(whole, None)
        return  # git knows it, and it was deleted
    except OSError as error:
        raise _unreadable(folder, path, error) from error
    is_safe = path_fault(path) is None
    if not stat.S_ISREG(found.st_mode) or not is_safe:
        listing.witness.odd(whole, found)
    if stat.S_ISDIR(found.st_mode):  # a repository inside this one
        inner = list_source(whole, barred, witness=listing.witness)
        listing.files += [one._replace(path=f"{path}/{one.path}") for one in inner.files]
        return
    if not stat.S_ISREG(found.st_mode):
        listing.leave(path, "a link" if stat.S_ISLNK(found.st_mode) else "not a file")
        return
    if not is_safe:
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


def _rules(folder: str, path: str, listing: Listing) -> Rules:
    try:
        return Rules(listing.witness.lines(os.path.join(folder, path)))
    except OSError as error:
        raise _unreadable(folder, path, error) from error


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
