"""One command of a builder: begun below `runtime.builder`, watched until its end."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpulayer.clock import Clock
from gpulayer.errors import GPULayerError, PreparationError
from gpulayer.runtime import builder, processes

LOOK_SECONDS = 0.1
"""How soon a builder is ended that nobody wants any more."""
OUTPUT_BYTES = 1 << 20
"""The end of what it printed; of an installer the rest is progress."""
MARK = "GPULAYER_BUILDS"
"""In the environment of all that belongs to a build: the folder that it makes."""


class TakenBackError(GPULayerError):
    """The task is not wanted any more, or somebody else prepares it now."""

    def __init__(self) -> None:
        super().__init__("cancelled", "taken back while its environment was prepared")


class TooLateError(PreparationError):
    """Its preparation took longer than it may."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, and whether still."""

    clock: Clock
    seconds: float
    began: float
    is_wanted: Callable[[], bool]

    @classmethod
    def begin(cls, clock: Clock, seconds: float, is_wanted: Callable[[], bool]) -> Patience:
        return cls(clock, seconds, clock.monotonic(), is_wanted)

    def check(self) -> None:
        """Raises `TakenBackError` or `TooLateError` once that is so."""
        if not self.is_wanted():
            raise TakenBackError
        if self.clock.monotonic() - self.began > self.seconds:
            raise TooLateError(
                "environment-failed",
                f"its environment was not ready within {self.seconds:g} s",
                why="environment.timeout_seconds is how long its preparation may take",
            )


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    output: str


def run(
    command: Sequence[str],
    folder: str,
    environ: Mapping[str, str],
    patience: Patience,
    look: Callable[[int], None] = lambda output: None,
) -> Ended:
    """Run it in `folder`, which it makes a part of. Whatever ends the wait, nothing of it is left
    then. `look` is called again and again with a descriptor of what it printed so far, which others
    move too. Raises OSError where it cannot be begun, and what `patience` does."""
    with tempfile.TemporaryFile() as output:
        begun = subprocess.Popen(
            builder.words(command),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**environ, MARK: folder},
            start_new_session=True,
        )
        assert begun.stdin is not None
        pin = _pin(begun.pid)
        try:
            while begun.poll() is None:
                patience.check()
                look(output.fileno())
                select.select([pin] if pin >= 0 else [], (), (), LOOK_SECONDS)
        finally:
            begun.stdin.close()
            if begun.poll() is None:
                begun.terminate()  # a process that a program of ours forked may hold the pipe too
            code = begun.wait()
            if pin >= 0:
                os.close(pin)
            if code < 0:  # it was killed before it could clear up
                clear(folder)
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - OUTPUT_BYTES))
        return Ended(code, os.fsdecode(output.read()))


def clear(folder: str) -> None:
    """End whatever an earlier build of that folder left running."""
    processes.end_marked(os.fsencode(f"{MARK}={folder}"))


def _pin(pid: int) -> int:
    """A descriptor that is readable once it has ended; -1 where there is no pidfd_open(2)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
