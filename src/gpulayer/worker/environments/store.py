"""The environments of one worker, as folders.

    FOLDER/<key>/            one environment; whole once it holds `whole.json`
    FOLDER/<key>.lock        held shared to take it into use, alone to make or remove it
    FOLDER/.gone-<key>       on its way out
    FOLDER/bases/            what is known of the Pythons below (`base`)
    TASKS/<task>/environment the key that a task uses, for as long as the task has a folder

A lock is of an open file (flock(2)), so it holds between threads as between processes, and ends
with its holder. The mark is renamed into place when everything else is there, and its time says
when the environment was last taken into use. The least recently used go when all of them take too
many bytes; never one that a task uses.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer.artifacts.syncing import flush_tree
from gpulayer.clock import Clock
from gpulayer.contracts import keeping
from gpulayer.worker import room
from gpulayer.worker.environments import building
from gpulayer.worker.environments.base import Base, Bases, Environ
from gpulayer.worker.environments.building import Patience
from gpulayer.worker.environments.files import Given
from gpulayer.worker.environments.making import FindUv, Making, find_uv, python_of
from gpulayer.worker.environments.packages import Local

USE = "environment"
"""The file in a task's folder that names what it uses."""
LAYOUT = 2
"""A part of every key: environments that an older version would make otherwise are not used."""
_MARK = "whole.json"
_GONE = ".gone-"
_KEY = 32
"""Characters of a key."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a task asks for."""

    requirements: tuple[str, ...]
    base: Base
    task_folder: str
    environ: Environ
    """Gives the variables of a builder; no part of the key."""
    given: Given | None = None
    """Its file."""

    @property
    def key(self) -> str:
        parts = {
            "layout": LAYOUT,
            "requirements": sorted(set(self.requirements)),
            "python": self.base.python,
            "version": self.base.version,
            "distributions": dict(self.base.distributions),
            **({"file": self.given.digests} if self.given is not None else {}),
        }
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY]


@dataclass(frozen=True, slots=True)
class Ready:
    folder: str
    how: str
    """`reused`, or `built by uv`."""
    packages: tuple[Local, ...] = ()
    """What its file has in the job's folder."""

    @property
    def python(self) -> str:
        return python_of(self.folder)


class Environments:
    """Any number of threads and processes may share a folder."""

    def __init__(
        self,
        folder: str,
        tasks: str,
        clock: Clock,
        *,
        most_bytes: int | None = None,
        uv: FindUv = find_uv,
    ) -> None:
        """`tasks` holds one folder per task."""
        self._folder = folder
        self._tasks = tasks
        self._clock = clock
        self._most = most_bytes
        self._uv = uv
        self._freed = threading.Condition()
        self.bases = Bases(os.path.join(folder, "bases"))

    def provide(self, wanted: Wanted, patience: Patience) -> Ready:
        """The environment, whole, and in use by the task from now on. Raises what `Making.make`
        does; nothing that may be taken for an environment is left then."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        key = wanted.key
        while True:
            with self._locked(key, fcntl.LOCK_SH) as is_ours:
                if is_ours and self._is_whole(key):
                    return self._used(wanted, key, "reused")
            with self._locked(key, fcntl.LOCK_EX) as is_ours:
                if is_ours:
                    if self._is_whole(key):
                        return self._used(wanted, key, "reused")
                    how = self._make(wanted, key, patience)
                    ready = self._used(wanted, key, f"built by {how}")
                    break
            patience.check()
            with self._freed:  # by a thread of ours; a process says nothing
                self._freed.wait(_LOOK_SECONDS)
        try:
            self.trim()
        except OSError:
            pass  # there will be another time to make room
        return ready

    def trim(self) -> list[str]:
        """Remove what was left half made, and of the rest, the longest unused first, what is too
        much. Never one that a task uses or somebody is making. The keys that went."""
        known = {key: self._mark(key) for key in self._keys()}
        size = sum(mark[1] for mark in known.values() if mark is not None)
        gone = []
        for key, mark in sorted(known.items(), key=lambda one: one[1] or (0.0, 0)):
            if mark is not None and size <= self._limit():
                break
            if self.remove(key):
                size -= 0 if mark is None else mark[1]
                gone.append(key)
        return gone

    def listed(self) -> list[dict[str, Any]]:
        """Each that is whole, the last used first: what it was made from, and the tasks that use
        it."""
        users = self.users()
        found = [
            {"key": key, **facts, "used_by": users.get(key, [])}
            for key in self._keys()
            if (facts := self._facts(key)) is not None
        ]
        return sorted(found, key=lambda one: (-one["used_at"], one["key"]))

    def remove(self, key: str) -> bool:
        """False: a task uses it, or it is being made."""
        with self._locked(key, fcntl.LOCK_EX) as is_ours:
            if not is_ours or key in self.users():
                return False
            self._discard(key)
            os.unlink(self._lock(key))
        return True

    def users(self) -> dict[str, list[str]]:
        """Key -> the tasks that use it."""
        found: dict[str, list[str]] = {}
        for task in _names(self._tasks):
            try:
                with open(os.path.join(self._tasks, task, USE), encoding="ascii") as file:
                    found.setdefault(file.read(), []).append(task)
            except (OSError, ValueError):
                pass  # it uses none, or has just ended
        return found

    def _make(self, wanted: Wanted, key: str, patience: Patience) -> str:
        path = self._at(key)
        self._discard(key)
        try:
            os.mkdir(path, 0o700)
            asked = (wanted.base, wanted.requirements, wanted.environ())
            making = Making(path, *asked, patience, self._uv, wanted.given)
            how = "; ".join((making.make(), *making.others))
            fresh = os.path.join(path, f".{_MARK}")
            facts = {
                "requirements": sorted(set(wanted.requirements)),
                "file": None if wanted.given is None else wanted.given.name,
                "python": wanted.base.python,
                "version": wanted.base.version,
                "bytes": room.held(path),
                "made_at": self._clock.now(),
                "by": how,
                "packages": [one.to_json() for one in making.packages],
            }
            with open(fresh, "w", encoding="ascii") as file:
                json.dump(facts, file)
            flush_tree(Path(path))  # what is marked must be whole after a power cut, too
            os.rename(fresh, os.path.join(path, _MARK))
        except BaseException:
            self._discard(key)
            raise
        return how

    def _used(self, wanted: Wanted, key: str, how: str) -> Ready:
        with open(os.path.join(wanted.task_folder, USE), "w", encoding="ascii") as file:
            file.write(key)
        os.utime(os.path.join(self._at(key), _MARK))
        facts = (self._facts(key) if wanted.given is not None else None) or {}
        found = (Local(*one) for one in facts.get("packages") or ())
        return Ready(self._at(key), how, tuple(found))

    def _is_whole(self, key: str) -> bool:
        """Also its Python must still be there: that of its base may have been removed."""
        path = self._at(key)
        return os.path.exists(os.path.join(path, _MARK)) and os.access(python_of(path), os.X_OK)

    def _discard(self, key: str) -> None:
        """Under its lock. What a killed builder left running is ended first."""
        path, gone = self._at(key), os.path.join(self._folder, _GONE + key)
        if os.path.lexists(path) and not os.path.exists(os.path.join(path, _MARK)):
            building.clear(path)
        shutil.rmtree(gone, ignore_errors=True)
        try:
            os.rename(path, gone)
        except FileNotFoundError:
            return
        shutil.rmtree(gone, ignore_errors=True)

    def _mark(self, key: str) -> tuple[float, int] | None:
        """When it was last used, and its bytes; None: it is not whole."""
        facts = self._facts(key)
        return None if facts is None else (facts["used_at"], facts["bytes"])

    def _facts(self, key: str) -> dict[str, Any] | None:
        path = os.path.join(self._at(key), _MARK)
        try:
            with open(path, encoding="ascii") as file:
                facts, used_at = json.load(file), os.stat(file.fileno()).st_mtime
            return {**facts, "bytes": int(facts["bytes"]), "used_at": used_at}
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _keys(self) -> Iterator[str]:
        found = (name.removeprefix(_GONE).removesuffix(".lock") for name in _names(self._folder))
        return iter({name for name in found if len(name) == _KEY})

    @contextmanager
    def _locked(self, key: str, how: int) -> Iterator[bool]:
        """Whether the lock could be had at once. One whose file was removed meanwhile is none."""
        fd = os.open(self._lock(key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield self._is_taken(key, fd, how)
        finally:
            os.close(fd)
            with self._freed:
                self._freed.notify_all()

    def _is_taken(self, key: str, fd: int, how: int) -> bool:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return os.path.samestat(os.fstat(fd), os.stat(self._lock(key)))
        except (BlockingIOError, FileNotFoundError):
            return False

    def _at(self, key: str) -> str:
        return os.path.join(self._folder, key)

    def _lock(self, key: str) -> str:
        return self._at(key) + ".lock"

    def _limit(self) -> int:
        if self._most is None:
            self._most = room.at_most(
                self._folder, keeping.ENVIRONMENT_BYTES, keeping.ENVIRONMENT_DISK_PART
            )
        return self._most


def _names(folder: str) -> Sequence[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()
