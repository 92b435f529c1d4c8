"""The images that jobs of this worker use: pulled once, in use, let go of by last use.

    FOLDER/<digest>.json  a mark: {name, id, bytes, pulled}; its time says when it was last used
    FOLDER/<digest>.lock  held alone to look for the image, to pull it or to remove it
    TASKS/<task>/image    the digest that a task uses, for as long as the task has a folder

The engine keeps the layers and checks their digests. A lock is of an open file (flock(2)), so that
of two jobs, or two workers of one user, one pulls and the other finds it there.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpulayer.clock import Clock
from gpulayer.contracts import keeping
from gpulayer.contracts.images import Reference
from gpulayer.errors import PreparationError
from gpulayer.worker import room
from gpulayer.worker.environments import building
from gpulayer.worker.environments.building import Patience
from gpulayer.worker.environments.words import meaningful
from gpulayer.worker.images import progress, words
from gpulayer.worker.images.engine import Engine, Engines, why
from gpulayer.worker.images.trying import Trials

USE = "image"
"""The file in a task's folder that names the digest that it uses."""
FRESH_SECONDS = 60.0
"""How long an image that was seen is not looked for again: that costs half of a short job."""
_KEY = 64
_LOOK_SECONDS = 0.1
_OUTPUT_BYTES = 1 << 18
_FORMAT = "{{.Id}} {{.Os}} {{.Architecture}} {{.Size}}"

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Image:
    """One that the engine has."""

    name: str
    """What the engine knows it by."""
    id: str
    architecture: str
    bytes: int


class Images:
    """Any number of threads and processes may share a folder."""

    def __init__(
        self,
        folder: str,
        tasks: str,
        clock: Clock,
        engines: Engines,
        *,
        most_bytes: int | None = None,
    ) -> None:
        """`tasks` holds one folder per task."""
        self._folder = folder
        self._tasks = tasks
        self._clock = clock
        self._most = most_bytes
        self._fresh: dict[str, tuple[Image, float]] = {}
        self._freed = threading.Condition()
        self.engines = engines
        self.trials = Trials()

    def engine(self) -> Engine:
        """Raises `image-failed` where none answers any more."""
        found = self.engines.find()
        if found is None:
            raise PreparationError(
                "image-failed",
                "it has no Podman and no Docker that answers",
                why=self.engines.note,
                hint="gpulayer workers",
            )
        return found

    def provide(
        self,
        wanted: Reference,
        task_folder: str,
        patience: Patience,
        proxies: Callable[[], Mapping[str, str]],
        told: Told,
    ) -> tuple[Image, str]:
        """The image, in use by the task from now on, and how it came: `here` or `pulled`. `told`
        hears that a pull begins, and how far it has come. Raises `image-failed`, `disk-full`, and
        what `patience` does."""
        engine = self.engine()
        os.makedirs(self._folder, 0o700, exist_ok=True)
        key = str(wanted.digest).partition(":")[2]
        known = self._fresh.get(key)
        if known is not None and self._clock.monotonic() - known[1] < FRESH_SECONDS:
            return self._used(key, known[0], task_folder, None), "here"
        while True:
            with self._locked(key) as is_ours:
                if is_ours:
                    found, pulled = _look(engine, wanted), False
                    if found is None:
                        self._pull(engine, wanted, patience, proxies(), told)
                        found, pulled = _look(engine, wanted), True
                    if found is None:
                        raise PreparationError(
                            "image-failed",
                            f"{wanted.by_digest} was pulled, and {engine.name} does not know it",
                        )
                    self._fresh[key] = found, self._clock.monotonic()
                    used = self._used(key, found, task_folder, pulled)
                    return used, "pulled" if pulled else "here"
            patience.check()
            with self._freed:  # by a thread of ours; a process says nothing
                self._freed.wait(_LOOK_SECONDS)

    def doubt(self) -> None:
        """A container could not be run: nothing is known of images and limits any more."""
        self._fresh.clear()
        self.trials.forget()

    def trim(self) -> list[str]:
        """Remove images that were pulled for jobs, the longest unused first, as long as all of
        them are too much. Never one that a task uses. The names that went."""
        engine = self.engines.known
        marks = {key: mark for key in self._keys() if (mark := self._mark(key)) and mark["pulled"]}
        size, gone = sum(mark["bytes"] for mark in marks.values()), []
        for key, mark in sorted(marks.items(), key=lambda one: one[1]["used"]):
            if engine is None or size <= self._limit():
                break
            with self._locked(key) as is_ours:
                if not is_ours or key in self.users():
                    continue
                told = engine.answer("rmi", str(mark["name"]))
                if told.ok or words.is_absent(told.err):
                    self._fresh.pop(key, None)
                    os.unlink(self._at(key))
                    size -= mark["bytes"]
                    gone.append(str(mark["name"]))
        return gone

    def listed(self) -> list[dict[str, Any]]:
        """Each that jobs have used, the last used first, with the tasks that use it. `pulled`: for
        a job, so it goes when there is no more room."""
        users = self.users()
        found = [
            {
                "digest": f"sha256:{key}",
                **{name: mark[name] for name in ("name", "bytes", "pulled")},
                "used_at": mark["used"],
                "used_by": users.get(key, []),
            }
            for key in self._keys()
            if (mark := self._mark(key))
        ]
        return sorted(found, key=lambda one: (-one["used_at"], one["digest"]))

    def users(self) -> dict[str, list[str]]:
        """Digest, less its kind -> the tasks that use it."""
        found: dict[str, list[str]] = {}
        for task in _names(self._tasks):
            try:
                with open(os.path.join(self._tasks, task, USE), encoding="ascii") as file:
                    found.setdefault(file.read(), []).append(task)
            except (OSError, ValueError):
                pass  # it uses none, or has just ended
        return found

    def _pull(
        self,
        engine: Engine,
        wanted: Reference,
        patience: Patience,
        proxies: Mapping[str, str],
        told: Told,
    ) -> None:
        if wanted.is_local:
            raise PreparationError(
                "image-failed",
                f"{wanted.by_digest} is not on this machine, and no registry has it",
                why=f"localhost/NAME is what {engine.kind} calls an image that was made there",
                hint=f"{engine.kind} push {wanted.by_tag} REGISTRY/NAME",
            )
        told(said := "")

        def look(output: int) -> None:
            nonlocal said
            now = progress.of(os.fsdecode(os.pread(output, _OUTPUT_BYTES, 0)))
            if now and now != said:
                said = now
                told(now)

        environ = {**engine.environ, **proxies, "LC_ALL": "C"}
        line = engine.words("pull", wanted.by_digest)
        try:
            ended = building.run(line, self._folder, environ, patience, look)
        except OSError as error:
            raise PreparationError("image-failed", f"{engine.kind} cannot be started") from error
        if ended.code != 0:
            meaning = words.of_pull(ended.output, wanted.registry, engine.kind)
            raise PreparationError(
                meaning.slug,
                f"{wanted.by_digest} {meaning.what}",
                why="\n".join(meaningful(ended.output)[-4:]),
                hint=meaning.mend or "gpulayer help images",
            )

    def _used(self, key: str, image: Image, task_folder: str, pulled: bool | None) -> Image:
        """`pulled` None: as it was marked before."""
        with open(os.path.join(task_folder, USE), "w", encoding="ascii") as file:
            file.write(key)
        mark = self._mark(key)
        if mark is not None and mark["id"] == image.id:
            os.utime(self._at(key))
            return image
        fresh = f"{self._at(key)}.{os.getpid()}.{threading.get_ident()}"
        with open(fresh, "w", encoding="ascii") as file:
            facts = {"name": image.name, "id": image.id, "bytes": image.bytes}
            json.dump({**facts, "pulled": bool(pulled)}, file)
        os.replace(fresh, self._at(key))
        return image

    def _mark(self, key: str) -> dict[str, Any] | None:
        try:
            with open(self._at(key), encoding="ascii") as file:
                mark = json.load(file)
                return {**mark, "used": os.fstat(file.fileno()).st_mtime}
        except (OSError, ValueError, TypeError):
            return None

    def _keys(self) -> list[str]:
        found = (name.removesuffix(".json") for name in _names(self._folder))
        return [key for key in found if len(key) == _KEY]

    @contextmanager
    def _locked(self, key: str) -> Iterator[bool]:
        """Whether the lock could be had at once."""
        path = os.path.join(self._folder, f"{key}.lock")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(fd)
            with self._freed:
                self._freed.notify_all()

    def _at(self, key: str) -> str:
        return os.path.join(self._folder, f"{key}.json")

    def _limit(self) -> int:
        if self._most is None:
            most, part = keeping.IMAGE_BYTES, keeping.IMAGE_DISK_PART
            self._most = room.at_most(self._folder, most, part)
        return self._most


def _look(engine: Engine, wanted: Reference) -> Image | None:
    """By name, or as the id that an engine gave an image of its own. None: it is not here."""
    for name in (wanted.by_digest, str(wanted.digest)):
        told = engine.answer("image", "inspect", "--format", _FORMAT, name)
        if told.ok:
            identity, _, machine, size = told.out.split()
            return Image(name, identity, words.architecture(machine), int(size))
        if not words.is_absent(told.err):
            raise PreparationError("image-failed", f"{engine.name} does not work", why=why(told))
    return None


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
