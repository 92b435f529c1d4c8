"""What the steps of one task know and have settled so far."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from gpulayer.clock import Clock
from gpulayer.contracts.messages import Assignment
from gpulayer.errors import PreparationError
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.environments.store import Environments
from gpulayer.worker.images.store import Image, Images
from gpulayer.worker.secrets.book import Book

GRACE_SECONDS = 10.0
"""Between asking a task to end at its time limit and killing it."""

Lookup = Callable[[str, Sequence[str]], Mapping[str, str | None]]
"""(envelope id, names) -> the terminal's values of these variables; None where it had none."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What somebody who waits for a preparation is told, and says."""

    is_wanted: Callable[[], bool] = lambda: True
    enters: Callable[[str], None] = lambda phase: None
    """Called with the name of a phase that may take long, as it begins."""


UNWATCHED = Watch()


@dataclass(slots=True)
class TaskPlan:
    assignment: Assignment
    folder: str
    """The task's own folder; see the paths below."""
    interpreter: str
    """The worker's configured Python, for jobs that bring none."""
    environ: Mapping[str, str]
    """The worker's own environment."""
    lookup: Lookup
    artifacts: ArtifactCache
    environments: Environments
    worker: str
    """The name of this machine, for people."""
    clock: Clock
    watch: Watch
    secrets: Book
    """What the worker's owner lets jobs have."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Data sets that the worker has declared: where each is."""
    images: Images | None = None
    take_spare: Callable[[str], bool] = lambda folder: False
    """Whether an empty folder that stood ready is now there, with its output folder in it."""

    argv: list[str] = field(default_factory=list)
    set: dict[str, str] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)
    whole: dict[str, str] | None = None
    """The environment that `set` and `unset` change; None: that of the envelope."""
    cwd: str | None = None
    """None: that of the envelope."""
    stdin: str | None = None
    """A file to be read as standard input."""
    python: str | None = None
    """Of the environment that was prepared for it."""
    image: Image | None = None
    """That it runs in."""
    outside: dict[str, Any] | None = None
    """What ends its container: see `runtime.outside`."""
    notes: dict[str, str] = field(default_factory=dict)
    """Step -> what it came to, for people."""
    pipes: list[dict[str, Any]] = field(default_factory=list)
    """Named pipes of ranks: path, stream, rank."""
    warm: dict[str, Any] | None = None
    """From which Python that has imported already it may be forked: see `runtime.zygotes`."""
    rendezvous: dict[str, Any] | None = None
    """Of node 0 of a gang: where the others find it."""
    redact: list[tuple[str, str]] = field(default_factory=list)
    undo: ExitStack = field(default_factory=ExitStack)

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.assignment.spec

    @property
    def workload(self) -> Mapping[str, Any]:
        return self.assignment.spec["workload"]  # type: ignore[no-any-return]

    @property
    def here(self) -> bool:
        """Whether the job sees the world of the terminal that submitted it."""
        return self.assignment.envelope_id is not None

    @property
    def in_place(self) -> bool:
        """Whether it runs in a folder of its user's, not in a workspace of ours."""
        return self.here and not self.workload.get("source")

    def base_python(self) -> str:
        """The Python that it would have without an environment of its own. Raises
        `interpreter-gone`."""
        chosen = self.assignment.origin.get("interpreter") or {}
        path = str(chosen.get("path") or self.interpreter)
        if not os.access(path, os.X_OK):
            raise PreparationError(
                "interpreter-gone",
                f"the Python of this job is no longer at {path}",
                why=str(chosen.get("why") or "it was chosen when the job was submitted"),
                hint="gpulayer retry " + self.assignment.job_id,
                job_id=self.assignment.job_id,
            )
        return path


def inputs(folder: str) -> str:
    return os.path.join(folder, "in")


def outputs(folder: str) -> str:
    return os.path.join(folder, "out")


def workspace(folder: str) -> str:
    return os.path.join(folder, "work")


def metrics_file(folder: str) -> str:
    return os.path.join(folder, "metrics.jsonl")


def ranks(folder: str) -> str:
    return os.path.join(folder, "ranks")


def stdin_file(folder: str) -> str:
    return os.path.join(folder, "stdin")


def staged_file(folder: str) -> str:
    return os.path.join(folder, "staged.json")


def staged(folder: str) -> frozenset[str]:
    """Paths in the workspace that were there before the job began."""
    try:
        with open(staged_file(folder), encoding="utf-8") as file:
            return frozenset(json.load(file))
    except (OSError, ValueError, TypeError):
        return frozenset()


def call_file(folder: str) -> str:
    return os.path.join(folder, "call.json")


def ends_file(folder: str) -> str:
    """Of a run of elements."""
    return os.path.join(folder, "ends.json")


def result_file(folder: str) -> str:
    return os.path.join(folder, "result.json")
