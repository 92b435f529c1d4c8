"""A home of the test's own with a real local plane in it, and nothing of it left afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import gpulayer
from gpulayer.api.wire import Wire
from gpulayer.clock import SystemClock
from gpulayer.errors import UnreachableError
from gpulayer.runtime import segments
from gpulayer.sdk import local
from gpulayer.sdk.joined import Joined
from gpulayer.sdk.places import Places
from gpulayer.sdk.processes import running
from gpulayer.sdk.waiting import look_again

SOURCE = str(Path(gpulayer.__file__).parents[1])
RUN = [sys.executable, "-m", "gpulayer", "run", "--"]
SECONDS = 60.0


_OF_THE_TESTER = (
    "GPULAYER_", "VIRTUAL_ENV", "CONDA_", "PYTHONUNBUFFERED", "COLUMNS", "LINES",
)  # fmt: skip
"""Variables that would make a home see the terminal and environment of whoever runs the tests."""


class LocalHome:
    """Leaving the context kills every process that carries this home's name."""

    def __init__(self, **environ: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="g"))
        self.work = self.folder / "work"
        self.work.mkdir()
        (self.folder / "run").mkdir(mode=0o700)
        self.environ = {
            name: value for name, value in os.environ.items() if not name.startswith(_OF_THE_TESTER)
        }
        self.environ |= {
            "GPULAYER_HOME": str(self.folder / "home"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "PYTHONPATH": SOURCE,
            **environ,
        }

    def __enter__(self) -> LocalHome:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(self.last_words())
        self.kill_all()
        shutil.rmtree(self.folder)

    @property
    def places(self) -> Places:
        return Places.find(self.environ)

    def run(self, *command: str, check: int | None = None, **how: Any) -> Any:
        """`run -- command` to its end; a CompletedProcess with bytes."""
        done = self.typed(*RUN, *command, **how)
        assert check is None or done.returncode == check, done
        return done

    def typed(self, *words: str, **how: Any) -> Any:
        """A whole line in a terminal of this home, to its end; a CompletedProcess with bytes."""
        how = {"stdin": subprocess.DEVNULL, "cwd": self.work, "env": self.environ, **how}
        if "input" in how:
            del how["stdin"]
        return subprocess.run(words, capture_output="stdout" not in how, timeout=SECONDS, **how)

    def gpulayer(self, *words: str) -> Any:
        """A line of ours to its end; a CompletedProcess with text."""
        return self.typed(sys.executable, "-m", "gpulayer", *words, text=True)

    def popen(self, *command: str, **how: Any) -> subprocess.Popen[bytes]:
        """`run -- command`, begun."""
        how = {"stdin": subprocess.DEVNULL, "cwd": self.work, "env": self.environ, **how}
        return subprocess.Popen([*RUN, *command], **how)

    def wire(self) -> Wire:
        """A client of the plane that is there; it starts none."""
        return Wire(self.places.plane_socket, tries=1)

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.wire().call("GET", "/v1/jobs?all=1&limit=100000")["jobs"]
        return found

    def log(self, job: str) -> bytes:
        """What a job has said so far, its streams in one."""
        raw = self.wire().request("GET", f"/v1/jobs/{job}/logs").data
        return b"".join(record.data for record in segments.decode(raw) if record.stream)

    def until_running(self, count: int) -> list[dict[str, Any]]:
        """Wait until that many jobs run; those jobs."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [job for job in self.jobs() if job["state"] == "running"]
            return len(found) >= count

        self.until(there)
        return found

    def until(self, there: Callable[[], object]) -> None:
        """Wait for something outside that gives no signal; a plane that is away counts as no."""
        clock = SystemClock()
        end = clock.monotonic() + SECONDS
        while True:
            try:
                if there():
                    return
            except (OSError, UnreachableError):
                pass
            assert clock.monotonic() < end, "it never came"
            look_again()

    def stop(self, *, force: bool = False) -> bool:
        return local.stop(self.places, force=force)

    def processes(self) -> list[str]:
        """Kinds of our processes that live, sorted."""
        return [kind for kind, _ in running(self.places)]

    def pid(self, kind: str) -> int:
        """Of the one that there is, or that will be in a moment."""
        found: list[int] = []

        def there() -> bool:
            found[:] = [pid for name, pid in running(self.places) if name == kind]
            return bool(found)

        self.until(there)
        return found[0]

    def kill(self, kind: str) -> None:
        """SIGKILL, and wait until it is gone. One that leaves by itself in that moment, as the
        loser of a lock does, is not the one that was meant."""
        while True:
            try:
                return slay(self.pid(kind))
            except ProcessLookupError:
                continue

    @property
    def joined(self) -> Joined:
        """What this home has of the one server that it joined."""
        (name,) = os.listdir(self.folder / "home" / "joined")
        folder = str(self.folder / "home" / "joined" / name)
        places = Places.find({**self.environ, "GPULAYER_HOME": folder})
        return Joined(str(self.folder / "home"), name, places)

    def joined_pid(self, kind: str) -> int:
        """Of a process of the worker that joined."""
        return next(pid for found, pid in running(self.joined.places) if found == kind)

    def strays(self) -> list[int]:
        """Processes that carry the home in their environment or arguments, ours and jobs'."""
        marks = (os.fsencode(self.folder / "home"), os.fsencode(self.folder / "run"))
        return [
            pid
            for pid in (int(name) for name in os.listdir("/proc") if name.isdigit())
            if pid != os.getpid() and any(mark in _about(pid) for mark in marks)
        ]

    def kill_all(self) -> None:
        """Again until there is none: a dying agent may just be starting a plane. One look can miss
        a daemon that forks while it is taken, so a second one must agree."""
        while strays := self.strays() or self.strays():
            for pid in strays:
                try:
                    with watched(pid) as gone:
                        os.kill(pid, signal.SIGKILL)
                        gone(SECONDS)
                except ProcessLookupError:
                    continue

    def last_words(self) -> str:
        """The ends of our processes' logs."""
        logs = sorted((self.folder / "home").glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)


def slay(pid: int) -> None:
    """SIGKILL, and wait until it is gone."""
    with watched(pid) as gone:
        os.kill(pid, signal.SIGKILL)
        assert gone(SECONDS)


@contextmanager
def watched(pid: int) -> Iterator[Any]:
    """`gone(seconds)`: whether the process has ended, without mistaking another for it."""
    import select

    fd = os.pidfd_open(pid)
    try:
        yield lambda seconds: bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def _about(pid: int) -> bytes:
    text = b""
    for name in ("environ", "cmdline"):
        try:
            text += Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            continue
    return b"" if _is_dead(pid) else text


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True
