"""A supervisor of our own, in a home of our own, and the verbs that a test speaks to it."""

from __future__ import annotations

import itertools
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import gpulayer
from gpulayer.runtime import frames, segments
from gpulayer.runtime.dispatch import REATTACH_SECONDS

ROOT = str(Path(gpulayer.__file__).parent.parent)
PROGRAM = (
    f"import sys; sys.path.insert(0, {ROOT!r}); "
    "from gpulayer.runtime.supervisor import main; sys.exit(main())"
)
FINISH_SECONDS = 60.0


class Supervisor(subprocess.Popen[bytes]):
    """The process; `ready` is where it says that it serves."""

    ready: int


class SupervisorHome:
    """A home with a supervisor in it. Leaving the context ends the supervisor and its jobs."""

    def __init__(self, folder: Path, containment: str = "auto", idle_seconds: float = 60.0) -> None:
        self.home = folder / "home"
        self.runtime = Path(tempfile.mkdtemp(prefix="gpl-"))
        for place in (self.home / "sup", self.home / "tasks", self.runtime / "envelopes"):
            place.mkdir(parents=True)
        self.folder = folder / "folder"
        self.folder.mkdir()
        self.containment = containment
        self.idle_seconds = idle_seconds
        self.more: list[str] = []
        """Further arguments of the next supervisor."""
        self.process: Supervisor | None = None
        self._followed: dict[str, bytearray] = {}
        self._ids = itertools.count(1)
        self._connections: list[frames.Connection] = []

    def __enter__(self) -> SupervisorHome:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for connection in self._connections:
            connection.close()
        if self.process is not None:
            self.process.terminate()
            self.process.wait(FINISH_SECONDS)
        log = self.log()
        for name in ("envelopes",):
            for path in (self.runtime / name).iterdir():
                path.unlink()
            (self.runtime / name).rmdir()
        for path in self.runtime.iterdir():
            path.unlink()
        self.runtime.rmdir()
        if error is not None and log:
            error.args = (*error.args, f"the supervisor's log: {log}")
        assert error is not None or not log, log

    @property
    def socket(self) -> str:
        return str(self.runtime / "s.sock")

    def log(self) -> str:
        path = self.home / "supervisor.log"
        return path.read_text() if path.exists() else ""

    def start(
        self,
        python: str = sys.executable,
        *,
        reattach_seconds: float = REATTACH_SECONDS,
        **popen: Any,
    ) -> None:
        """Starts the supervisor and waits for its ready byte."""
        self.process = self.spawn(python, reattach_seconds=reattach_seconds, **popen)
        ready = os.read(self.process.ready, 1)
        os.close(self.process.ready)
        assert ready, f"the supervisor did not start: {self.log()}"

    def spawn(
        self,
        python: str = sys.executable,
        *,
        reattach_seconds: float = REATTACH_SECONDS,
        **popen: Any,
    ) -> Supervisor:
        """One more supervisor for this home, without waiting."""
        reader, writer = os.pipe()
        argv = [python, "-I", "-S", "-c", PROGRAM, "--home", str(self.home)]
        argv += ["--runtime", str(self.runtime), "--idle-seconds", str(self.idle_seconds)]
        argv += ["--reattach-seconds", str(reattach_seconds)]
        argv += self.more
        argv += ["--containment", self.containment, "--ready-fd", str(writer)]
        process = Supervisor(argv, pass_fds=(writer,), **{"env": {}, **popen})
        os.close(writer)
        process.ready = reader
        return process

    def stop(self) -> None:
        """Asks the supervisor to leave."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(FINISH_SECONDS)

    def kill(self) -> None:
        """kill -9 of the supervisor."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(FINISH_SECONDS)
        self.process = None

    def connect(self, role: str = "client") -> frames.Connection:
        connection = frames.connect(self.socket, timeout=FINISH_SECONDS)
        connection.call("hello", role=role, wire=frames.WIRE, version="test")
        self._connections.append(connection)
        return connection

    def envelope(self, **changes: Any) -> dict[str, Any]:
        """The world of a terminal with a short environment, in `self.folder`."""
        found = self.folder.stat() if self.folder.exists() else None
        return {
            "environ": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "LC_ALL=C.UTF-8"],
            "cwd": str(self.folder),
            "cwd_dev": found.st_dev if found else None,
            "cwd_ino": found.st_ino if found else None,
            "umask": 0o022,
            "rlimits": {},
            "nice": None,
            "affinity": [],
            "ignored_signals": [],
            "interpreter": None,
            **changes,
        }

    def task(self, *argv: str, **changes: Any) -> dict[str, Any]:
        number = next(self._ids)
        return {
            "task_id": f"task{number}",
            "fence": number,
            "job_id": f"job{number}",
            "index": 0,
            "attempt": 1,
            "argv": list(argv),
            "envelope_id": None,
            "attach_id": None,
            "set": {},
            "unset": [],
            "cwd": None,
            "timeout_seconds": None,
            "grace_seconds": 0.2,
            "redact": [],
            "stdin": "null",
            "unbuffered": False,
            "log_limit_bytes": None,
            **changes,
        }

    def run(
        self,
        agent: frames.Connection,
        *argv: str,
        envelope: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Ended:
        """Starts a detached task in an envelope and follows it to its end."""
        world = self.envelope() if envelope is None else envelope
        envelope_id = agent.call("envelope", envelope=world, keep=False)["envelope_id"]
        task = self.task(*argv, envelope_id=envelope_id, **changes)
        agent.call("start", task=task)
        return self.follow(agent, task["task_id"])

    def follow_once(self, agent: frames.Connection, task_id: str) -> int:
        """Waits until the task has said more than ever before; returns how many bytes so far."""
        said = self._followed.setdefault(task_id, bytearray())
        reply = agent.call("tail", task_id=task_id, offset=len(said), max_bytes=1 << 20)
        kind, payload = "", b""
        while reply["bytes"] and kind != frames.LOG:
            kind, payload, _ = agent.recv()
        said += payload
        return sum(len(record.data) for record in segments.decode(bytes(said)))

    def follow(self, agent: frames.Connection, task_id: str) -> Ended:
        """Tails the task to its end."""
        data = bytearray()
        while True:
            reply = agent.call("tail", task_id=task_id, offset=len(data), max_bytes=1 << 20)
            kind, payload = "", b""
            while reply["bytes"] and kind != frames.LOG:
                kind, payload, _ = agent.recv()
            data += payload
            if reply["eof"]:
                return Ended(task_id, reply["exit"], bytes(data))


class Screen:
    """An attached client: what it was sent, frame by frame."""

    def __init__(self, home: SupervisorHome, **attach: Any) -> None:
        self.connection = home.connect()
        self.events: list[dict[str, Any]] = []
        self.out = {frame: bytearray() for frame in "12T"}
        envelope = attach.pop("envelope", None) or home.envelope()
        streams = {"0": "null", "1": "pipe", "2": "pipe", **attach.pop("streams", {})}
        self.request = {"streams": streams, "merged": False, "mode": "plain", **attach}
        self.ids = self.connection.call("attach", envelope=envelope, **self.request)

    def start(
        self, home: SupervisorHome, agent: frames.Connection, *argv: str, **changes: Any
    ) -> str:
        """Starts a task for this client and waits until it runs."""
        task = home.task(*argv, **{**self.ids, "stdin": "attach", **changes})
        agent.call("start", task=task)
        self.until(lambda: self.event("started") is not None)
        return str(task["task_id"])

    def event(self, name: str) -> dict[str, Any] | None:
        return next((e for e in self.events if e["event"] == name), None)

    def until(self, claim: Callable[[], bool]) -> None:
        """Receives until the claim holds. EOFError where the connection ends first."""
        while not claim():
            kind, payload, _ = self.connection.recv()
            if kind == frames.JSON:
                self.events.append(payload)
            else:
                assert self.event("exited") is None, "output after the end"
                self.out[kind] += payload

    def until_shown(self, text: bytes, frame: str = "T") -> None:
        self.until(lambda: text in self.out[frame])

    def until_exited(self) -> dict[str, Any]:
        self.until(lambda: self.event("exited") is not None)
        event = self.event("exited")
        assert event is not None
        ending: dict[str, Any] = event["exit"]
        return ending

    def say(self, op: str, **fields: Any) -> None:
        self.connection.send_json({"op": op, **fields})

    def type(self, keys: bytes) -> None:
        self.connection.send(frames.INPUT, keys)

    def leave(self) -> None:
        self.connection.close()


class Ended:
    """A task that has ended: its exit and its log."""

    def __init__(self, task_id: str, ending: dict[str, Any], log: bytes) -> None:
        self.task_id = task_id
        self.exit = ending
        self.log = log
        self.records = segments.decode(log)

    def said(self, *streams: int) -> bytes:
        """What it wrote to these streams; to any of the job's own where none is named."""
        wanted = streams or (segments.STDOUT, segments.STDERR, segments.BOTH)
        return b"".join(r.data for r in self.records if r.stream in wanted)

    @property
    def notes(self) -> str:
        return self.said(segments.NOTE).decode()


def mark(seconds: str) -> str:
    """An argument of `sleep` that no other run of these tests uses at the same time, nor begins
    one of its own with."""
    return f"{seconds}{os.getpid():010}"


def alive(marker: str) -> list[int]:
    """Processes that carry `marker` in their arguments or environment and are no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in words and state != b"Z":
            found.append(int(entry.name))
    return found


def wait_dead(pid: int, seconds: float = FINISH_SECONDS) -> None:
    """Waits for the end of a process that may be nobody's child of ours."""
    try:
        pin = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([pin], [], [], seconds)[0], f"process {pid} lives on"
    finally:
        os.close(pin)


def kill_9(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_dead(pid)


def eventually(claim: Any, seconds: float = FINISH_SECONDS) -> None:
    """Waits for a state of the kernel's that has no event, such as an entry of /proc."""
    end = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < end, "it did not come to pass"
        select.select([], [], [], 0.005)
