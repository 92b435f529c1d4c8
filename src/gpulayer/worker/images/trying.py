"""Whether the engine can run a container here, found out once by running one that ends at once.

The command of the trial does not exist in any image, so a runtime that comes as far as looking for
it has made the container: limits, devices and mounts are right. What an engine says before that is
told with its own words, apart from anything that a job prints.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from gpulayer.errors import PreparationError
from gpulayer.worker.images import words
from gpulayer.worker.images.engine import Engine, own_limits, why

ABSENT = "/gpulayer-looks-whether-a-container-can-begin"
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Found:
    """What options a container gets here."""

    ulimits: tuple[str, ...] = ()
    """Options; none: the engine's own defaults."""
    has_groups: bool = True
    """Whether memory and cores can be limited."""


class Trials:
    """What was found out. Thread-safe: the same may be tried twice."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Found] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        with self._lock:
            self._known.clear()

    def found(
        self, engine: Engine, image: str, options: Sequence[str], limits: Sequence[str], what: str
    ) -> Found:
        """How a container with these options can be run. `limits` are those of memory and cores,
        `what` says which options there are, for containers that have the same. Raises
        `image-failed` with the engine's words where it cannot."""
        key = (engine.name, bool(limits), what)
        with self._lock:
            known = self._known.get(key)
        if known is None:
            known = _tried(engine, image, options, limits)
            with self._lock:
                self._known[key] = known
        return known


def _tried(engine: Engine, image: str, options: Sequence[str], limits: Sequence[str]) -> Found:
    ulimits: tuple[str, ...] = ()
    has_groups = True
    while True:
        asked = [*options, *(limits if has_groups else ()), *ulimits]
        told = engine.answer("run", "--rm", "--pull", "never", *asked, image, ABSENT)
        is_warned = words.is_warning(told.err) and words.is_about_groups(told.err)
        if told.code == _NOT_FOUND and not (is_warned and limits and has_groups):
            return Found(ulimits, has_groups)
        if not ulimits and words.is_about_ulimits(told.err):
            ulimits = tuple(own_limits())
        elif limits and has_groups and words.is_about_groups(told.err):
            has_groups = False
        else:
            raise PreparationError(
                "image-failed",
                f"{engine.name} cannot run a container",
                why=why(told),
                hint="gpulayer help images",
            )
