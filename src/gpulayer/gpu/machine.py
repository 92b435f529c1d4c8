"""The port through which discovery looks at a machine: its files, its environment, its programs.

A test gives it a folder instead of `/` and canned answers instead of programs. The real runner
never waits past its deadline: a program stuck inside a wedged driver cannot even be killed
(state D in ps(1)), so it is killed, given one second, and left behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended. `code` is None unless it ended by itself in time."""

    code: int | None
    out: str = ""
    err: str = ""
    problem: Literal["", "missing", "timeout"] = ""

    @property
    def ok(self) -> bool:
        return self.code == 0


Runner = Callable[[Sequence[str], float], Completed]
"""(argv, seconds) -> Completed. Never raises, never returns later than about a second after the
deadline."""


class Programs:
    """The real runner: no stdin, the C locale, a process group of its own. Threads may share it.

    A program that outlived its kill is not started a second time while it lives; whoever asks is
    told at once that it does not answer. So a wedged driver costs one process, not one a minute.
    """

    def __init__(
        self,
        end: Callable[[subprocess.Popen[bytes]], bool] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ` instead of our own."""
        self._end = end or _kill
        self._environ = environ
        self._stuck: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

    def __call__(self, argv: Sequence[str], seconds: float) -> Completed:
        stuck = self._stuck.get(tuple(argv))
        if stuck is not None and stuck.poll() is None:
            return Completed(None, problem="timeout")
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**(os.environ if self._environ is None else self._environ), "LC_ALL": "C"},
            )
        except OSError as error:
            return Completed(None, err=str(error), problem="missing")
        _yield_to_jobs(child.pid)
        try:
            out, err = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            if not self._end(child):
                self._stuck[tuple(argv)] = child
            return Completed(None, problem="timeout")
        return Completed(child.returncode, _text(out), _text(err))


def _yield_to_jobs(pid: int) -> None:
    """Looking around must not slow down a job that begins meanwhile."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, 10)
    except OSError:
        pass  # it is over


def _kill(child: subprocess.Popen[bytes]) -> bool:
    """Kills the child's group; whether the child is gone a second later."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        child.communicate(timeout=1)
        return True
    except subprocess.TimeoutExpired:
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        return False


run_program = Programs()
"""The runner of this process."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What discovery may look at. The defaults are this machine as it is."""

    run: Runner = run_program
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    root: Path = Path("/")
    platform: str = sys.platform
    python: str = sys.executable
    """The interpreter that runs our own probes; it has nvidia-ml-py."""

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def read(self, name: str) -> str | None:
        """The text of a file, or None where it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def names(self, folder: str) -> list[str]:
        """The sorted names in a folder; none where there is no such folder."""
        try:
            return sorted(os.listdir(self.path(folder)))
        except OSError:
            return []

    def kernel_log(self) -> str:
        """What the kernel still remembers, where this user may read it; else nothing. See
        Documentation/ABI/testing/dev-kmsg: one record a read, EAGAIN at the end."""
        records = []
        try:
            log = os.open(self.path("/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return ""
        try:
            while record := os.read(log, 8192):
                records.append(record)
        except OSError:
            pass
        finally:
            os.close(log)
        return _text(b"".join(records))

    def which(self, program: str, *also: str) -> str | None:
        """The program on PATH, else the first of the given paths that exists."""
        found = shutil.which(program, path=self.environ.get("PATH", os.defpath))
        if found is not None:
            return found
        return next((path for path in also if self.exists(path)), None)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
