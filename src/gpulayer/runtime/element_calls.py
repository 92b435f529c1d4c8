"""Calls of a function for many elements, one after another, in one process while none ends it.

Loaded by `function_runner` for a run; see `element_loop`, of which this is the other half. What the
calls print goes to two files that have no name: so this process knows whose each byte is without
asking, and has what one said that took its process with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime import element_loop as loop
else:
    import _gpulayer_element_loop as loop


def call_all(
    call: dict[str, Any],
    ends: str,
    find: Callable[[], tuple[Any, str]],
    called: Callable[..., tuple[int, str]],
    exit_code: Callable[[SystemExit], int],
) -> None:
    """The elements of a function's run: `called` for each, with what `find` found. One that leaves
    by `sys.exit` has ended, and the next one follows."""

    def work(calls: Calls, nth: int) -> None:
        function, failure = find()
        for index, args, kwargs, env in calls.elements[nth:]:
            os.environ.update(env)
            began, code, result = time.time(), loop.NOT_FOUND, failure
            if function is not None:
                try:
                    one = {**call, "args": args, "kwargs": kwargs}
                    code, result = called(function, one, ends)
                except SystemExit as stop:
                    code = exit_code(stop)
                    result = json.dumps({"exit": code})
            calls.end(index, (began, time.time()), code, result)
            if function is not None and calls.is_over(code):
                return

    Calls(call, ends, work).run()


class Calls(loop.Loop):
    """Calls in a process that runs them all; a new one where one of them ends it."""

    def __init__(self, plan: dict[str, Any], ends: str, work: Callable[[Calls, int], None]) -> None:
        """`work(self, n)` is called in the process, and calls the elements from the nth on."""
        super().__init__(plan, ends)
        self._work = work
        self._files = [_unlinked(ends + name) for name in (".out", ".err")]
        self._told = [0, 0]
        self._seen = 0
        """Bytes of ENDS that were looked at."""
        self.ended = 0
        self._newest = 0.0
        """When the newest one ended."""

    def run(self) -> None:
        """Returns in the process of the calls, once these are over, and in this one."""
        self.listen()
        while self.ended < len(self.elements):
            for number in range(2):
                os.ftruncate(self._files[number], 0)
                self._told[number] = 0
            reader, writer = os.pipe()
            began = time.time()
            pid = os.fork()
            if pid == 0:
                self._become()
                os.write(writer, b"over")
                return
            self.leader = pid
            os.close(writer)
            status = self._watch(pid, reader)
            self.send(signal.SIGKILL)
            self.leader = 0
            if _has_said(reader):  # all of them, or the time was over
                self._speak(self.elements[self.ended - 1][0])
                return
            index = self.elements[self.ended][0]
            self._speak(index)
            self.write(index, (max(began, self._newest), time.time()), status, "null")
            self._count()
            if self.is_over(status):
                return

    def end(self, index: int, times: tuple[float, float], code: int, result: str) -> None:
        """In the process of the calls: one has ended."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass  # the call closed it
        self.put_outputs_aside(index)
        sizes = (os.fstat(self._files[0]).st_size, os.fstat(self._files[1]).st_size)
        os.write(self.fd, loop.end_line(sizes, index, times, (code, 0), result))

    def _become(self) -> None:
        os.setpgid(0, 0)
        for signum in loop.PASSED_ON:
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in range(2):
            os.dup2(self._files[number], number + 1)
        self._work(self, self.ended)

    def _watch(self, pid: int, reader: int) -> int:
        """Its death closes the pipe, unless it left something running."""
        is_leaving = False
        self.begins(time.monotonic())
        while True:
            said = select.select([reader], [], [], loop.LOOK_SECONDS)[0]
            done, status = os.waitpid(pid, os.WNOHANG)
            if self._count() and not self.has_timed_out and not is_leaving:
                self.begins(time.monotonic())
            if done:
                return status
            if said and not is_leaving:
                is_leaving, self._ask_at = True, time.monotonic() + self._grace
            if said:
                time.sleep(0.001)
            self.keep_time()

    def _count(self) -> int:
        """Looks at the ends that are new, and passes on what was said up to each."""
        new = 0
        while True:
            data = os.pread(self.fd, 1 << 20, self._seen)
            whole = data.rfind(b"\n") + 1
            if not whole:
                return new
            self._seen += whole
            lines = data[:whole].splitlines()
            new += len(lines)
            says = any(os.fstat(self._files[n]).st_size > self._told[n] for n in range(2))
            for line in lines if says else ():
                out, err, index = line[1:].split(b",", 3)[:3]
                self._speak(int(index), (int(out), int(err)))
            self.ended += len(lines)
            self._newest = float(lines[-1].split(b",", 5)[4])

    def _speak(self, index: int, until: tuple[int, int] = (1 << 62, 1 << 62)) -> None:
        for number, stream in enumerate((loop.segments.STDOUT, loop.segments.STDERR)):
            while self._told[number] < until[number]:
                most = min(loop.PIECE, until[number] - self._told[number])
                data = os.pread(self._files[number], most, self._told[number])
                if not data:
                    break
                self._told[number] += len(data)
                self.say(stream, index, data)


def _has_said(reader: int) -> bool:
    os.set_blocking(reader, False)
    try:
        return bool(os.read(reader, 8))
    except BlockingIOError:
        return False
    finally:
        os.close(reader)


def _unlinked(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return fd
