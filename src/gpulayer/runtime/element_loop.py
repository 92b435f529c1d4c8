"""Runs elements of an array one after another: `PY element_loop.py PLAN.json ENDS` for commands, a
process each; calls of a function are run by its runner (`Calls`), in one process while none breaks
it. The standard library alone, any Python from 3.8 up.

    PLAN  {elements: [[index, argv, env], ...], seconds, timeout?, grace, ends_with_failure?}
    ENDS  a line of JSON for each that has ended, written by whoever saw it:
          [bytes of output, of errors, index, started, ended, code, signal, result]

Standard output is a pipe of log records (`segments`), which say whose each piece is. What an
element leaves running in its process group ends with it, and the files of its output folder are
put aside under its index. After `seconds`, or a failure where that ends it, no other is begun: what
ENDS does not name has not ended, and only the first of it was begun.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

OUTPUT_DIR, INDEX = "GPULAYER_OUTPUT_DIR", "GPULAYER_ARRAY_INDEX"
ASIDE = "elements"
"""The folder beside the output folder where those of elements are put."""
MAX_ENDS_BYTES = 4 << 20
"""Once the ends are longer, no other element is begun."""

LOOK_SECONDS = 0.02
PIECE = 64 << 10
NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_FAILURE = '{"error":%s}'
PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def _beside(name: str) -> ModuleType:
    """A module of this folder, under a name that takes no other's place."""
    taken = "_gpulayer_" + name
    if taken not in sys.modules:
        path = os.path.join(os.path.dirname(os.path.realpath(__file__)), name + ".py")
        spec = importlib.util.spec_from_file_location(taken, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[taken] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[taken]


segments = _beside("segments")


def main() -> None:
    with open(sys.argv[1], encoding="ascii") as file:
        plan = json.load(file)
    Commands(plan, sys.argv[2]).run()


class Loop:
    """What both kinds have in common: when to stop, where ends and output go."""

    def __init__(self, plan: dict[str, Any], ends: str) -> None:
        self.elements: list[list[Any]] = plan["elements"]
        self.fd = os.open(ends, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.leader = 0
        """Process group of the element that runs; 0: none does."""
        self.is_asked_to_end = False
        self._until = time.monotonic() + plan["seconds"]
        self._timeout: float | None = plan.get("timeout")
        self._grace: float = plan["grace"]
        self._ends_with_failure = bool(plan.get("ends_with_failure"))
        self._out = os.environ[OUTPUT_DIR]
        self._kill_at = self._ask_at = float("inf")
        self.has_timed_out = False

    def listen(self) -> None:
        for signum in PASSED_ON:
            signal.signal(signum, self._pass_on)

    def write(self, index: int, times: tuple[float, float], status: int, result: str) -> None:
        """The end of one element. `status` is that of wait(2)."""
        self.put_outputs_aside(index)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if self.has_timed_out:
            result = '{"timed_out":true}'
        os.write(self.fd, end_line((0, 0), index, times, (code, signum), result))

    def is_over(self, code: int) -> bool:
        """Whether no other is begun behind one that ended so."""
        if self.is_asked_to_end or (code and self._ends_with_failure):
            return True
        return time.monotonic() >= self._until or os.fstat(self.fd).st_size > MAX_ENDS_BYTES

    def say(self, stream: int, index: int, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            left = segments.encode(stream, 0, index, time.time(), piece)
            while left:
                left = left[os.write(1, left) :]

    def begins(self, started: float) -> None:
        """An element does, on the clock that nobody sets."""
        self.has_timed_out, self._kill_at = False, float("inf")
        self._ask_at = float("inf") if self._timeout is None else started + self._timeout

    def keep_time(self) -> None:
        """Ends what runs past its time."""
        now = time.monotonic()
        if now >= self._kill_at:
            self.send(signal.SIGKILL)
            self._kill_at = now + 1.0
        elif now >= self._ask_at:
            self.has_timed_out = True
            self._ask_at, self._kill_at = float("inf"), now + self._grace
            self.send(signal.SIGTERM)

    def send(self, signum: int) -> None:
        if self.leader:
            try:
                os.killpg(self.leader, signum)
            except (ProcessLookupError, PermissionError):
                pass

    def put_outputs_aside(self, index: int) -> None:
        """Its own folder for each element that left a file. (An empty one costs a look.)"""
        try:
            if not os.listdir(self._out):
                return
            aside = os.path.join(os.path.dirname(self._out), ASIDE)
            os.makedirs(aside, 0o700, exist_ok=True)
            os.rename(self._out, os.path.join(aside, str(index)))
        except OSError:
            pass  # the element removed it, or took our right to it
        try:
            os.mkdir(self._out, 0o700)
        except OSError:
            pass

    def _pass_on(self, signum: int, _: Any) -> None:
        self.is_asked_to_end = True
        self.send(signum)


class Commands(Loop):
    """Each element a process with pipes of its own."""

    def run(self) -> None:
        self.listen()
        for index, argv, env in self.elements:
            status = self._one(index, argv, env)
            if self.is_over(status):
                return

    def _one(self, index: int, argv: list[str], env: dict[str, str]) -> int:
        pipes = [os.pipe() for _ in range(2)]
        began, started = time.time(), time.monotonic()
        self.begins(started)
        status, result = 0, "null"
        try:
            pid = self.leader = _spawn(argv, env, pipes)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            slug = "command-not-found" if missing else "not-executable"
            text = "command not found: " if missing else "cannot be executed: "
            result = _FAILURE % json.dumps({"slug": slug, "message": text + argv[0]})
            status = (NOT_FOUND if missing else _NOT_EXECUTABLE) << 8
            pid = 0
        for _, writer in pipes:
            os.close(writer)
        sources = {pipes[0][0]: segments.STDOUT, pipes[1][0]: segments.STDERR}
        if pid:
            status = self._watch(pid, index, dict(sources))
            self.send(signal.SIGKILL)
            self.leader = 0
        for reader, stream in sources.items():
            self._drain(reader, stream, index)
            os.close(reader)
        self.write(index, (began, time.time()), status, result)
        return status

    def _watch(self, pid: int, index: int, open_: dict[int, int]) -> int:
        """Until it ends. What it left running may hold its pipes."""
        while open_:
            for reader in select.select(list(open_), [], [], LOOK_SECONDS)[0]:
                data = os.read(reader, PIECE)
                if data:
                    self.say(open_[reader], index, data)
                else:
                    del open_[reader]
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return status
            self.keep_time()
        while True:
            done, status = os.waitpid(pid, 0 if self._timeout is None else os.WNOHANG)
            if done:
                return status
            time.sleep(LOOK_SECONDS)
            self.keep_time()

    def _drain(self, reader: int, stream: int, index: int) -> None:
        os.set_blocking(reader, False)
        try:
            while True:
                data = os.read(reader, PIECE)
                if not data:
                    return
                self.say(stream, index, data)
        except BlockingIOError:
            pass


def end_line(
    sizes: tuple[int, int],
    index: int,
    times: tuple[float, float],
    how: tuple[int, int],
    result: str,
) -> bytes:
    head = "[{},{},{},{!r},{!r},{},{},".format(*sizes, index, *times, *how)
    return (head + result + "]\n").encode("ascii")


def _spawn(argv: list[str], env: dict[str, str], pipes: list[tuple[int, int]]) -> int:
    moves = [(os.POSIX_SPAWN_DUP2, pipes[number][1], number + 1) for number in range(2)]
    ignored = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python itself, and exec keeps that
    return os.posix_spawnp(
        argv[0], argv, {**os.environ, **env}, file_actions=moves, setpgroup=0, setsigdef=ignored
    )


if __name__ == "__main__":
    main()
