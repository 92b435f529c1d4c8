"""The keeper: the forked parent of one job, where no cgroup leaf holds it or a terminal does.

    supervisor -- fork, no exec --> keeper -- fork, exec --> job

It is a subreaper, so that nothing of the job leaves it; leads the session of the job's terminal,
so that Ctrl-Z works; holds copies of the read ends, so that no output is lost with the
supervisor; and holds the lock of the task's birth file. It writes how the job ended into that
file before it tells anyone. When its supervisor dies it ends the job, drains what was not read,
and leaves.

`Keeper` is the supervisor's handle: a `Body` by proxy. They speak JSON lines over a socket pair:
down {"op": "signal" | "blame" | "kill" | "close" | "bye"}, up the events of `Body`.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import time
import traceback

from gpulayer.runtime import crash, exits, launches, processes, spawn
from gpulayer.runtime.body import Body
from gpulayer.runtime.journal import Birth
from gpulayer.runtime.loop import READ, Loop
from gpulayer.runtime.past import BIRTH, LOG
from gpulayer.runtime.processes import Children
from gpulayer.runtime.quick import Quick
from gpulayer.runtime.segments import Writer
from gpulayer.runtime.streams import Pump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from gpulayer.runtime.cgroup import Leaf
    from gpulayer.runtime.plumbing import Plumbing, Source

_WITHSTOOD = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE,
            signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # fmt: skip


class Keeper:
    """`report` gets the body's events, and {"event": "orphaned"} where it dies before the last."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        post: Post,
        report: Callable[[dict[str, Any]], object],
    ) -> None:
        self._loop = loop
        self._children = children
        self._post = post
        self._report = report
        self._ended = False
        self.is_dead = False
        self.pid = -1

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        before = spawn.block_signals()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _keep(self._post, theirs)
        finally:
            spawn.restore_signals(before)
        theirs.close()
        ours.setblocking(False)
        self._line = _Line(ours)
        self._children.watch(self.pid, self._gone)
        self._loop.watch(ours.fileno(), READ, self._read)

    def signal(self, signum: int, target: str = "group") -> None:
        self._line.send({"op": "signal", "signum": int(signum), "target": target})

    def blame(self, cause: str, reason: str | None = None) -> None:
        self._line.send({"op": "blame", "cause": cause, "reason": reason})

    def kill(self) -> None:
        self._line.send({"op": "kill"})

    def close_stream(self, stream: int) -> None:
        self._line.send({"op": "close", "stream": stream})

    def release(self) -> None:
        """All output was read: it may leave."""
        self._line.send({"op": "bye"})
        self._hang_up()

    def look(self) -> bool:
        """For a dead keeper: whether its leaf is empty; ends what still lives there."""
        leaf = self._post.leaf
        if self.is_dead and leaf is not None and leaf.is_populated():
            leaf.kill()
            return False
        return True

    def _read(self) -> None:
        for event in self._line.receive():
            self._ended = self._ended or event["event"] == "empty"
            self._report(event)
        if self._line.is_over:
            self._hang_up()

    def _gone(self, status: int, rusage: Any) -> None:
        if not self._line.is_over:
            self._read()  # its last words may still wait in the socket
        self._hang_up()
        if not self._ended:
            self.is_dead = True
            self._report({"event": "orphaned"})

    def _hang_up(self) -> None:
        if self._line.fileno() >= 0:
            self._loop.unwatch(self._line.fileno())
            self._line.close()


class Post:
    """What a keeper is given."""

    __slots__ = ("launch", "leaf", "plumbing", "request", "stem")

    def __init__(
        self,
        launch: spawn.Launch,
        plumbing: Plumbing,
        leaf: Leaf | None,
        stem: str,
        request: dict[str, Any],
    ) -> None:
        self.launch = launch
        self.plumbing = plumbing
        self.leaf = leaf
        self.stem = stem
        self.request = request


def _keep(post: Post, sock: socket.socket) -> NoReturn:
    """The life of the keeper's process."""
    try:
        gc.disable()  # a collection would copy the supervisor's pages for nothing
        spawn.withstand(_WITHSTOOD)
        if post.plumbing.controls >= 0:
            spawn.own_terminal(post.plumbing.controls)
        else:
            os.setsid()
        birth = Birth(post.stem + BIRTH)
        if birth.lock() and birth.exit() is None:
            _close_others(post, sock, birth)
            processes.adopt_orphans()
            _Keeping(post, sock, birth).run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _close_others(post: Post, sock: socket.socket, birth: Birth) -> None:
    """Another task's pipe kept open here would never end, and a connection never close."""
    plumbing = post.plumbing
    kept = {0, 1, 2, sock.fileno(), birth.fileno(), *plumbing.job, *plumbing.held}
    kept.update(source.fd for source in plumbing.sources)
    if post.leaf is not None:
        kept.update((post.leaf.procs, post.leaf.events))
    low = 0
    for fd in sorted(kept):
        if low < fd:  # an empty range from 0 would close everything (CPython 3.11)
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


class _Keeping:
    def __init__(self, post: Post, sock: socket.socket, birth: Birth) -> None:
        self._post = post
        self._birth = birth
        self._line = _Line(sock)
        self._sources = list(post.plumbing.sources)
        self._loop = Loop(_print_error)
        self._children = Children(stops=post.plumbing.controls >= 0, others=self._look)
        self._body = Body(
            self._loop, self._children, post.launch, post.leaf, Quick(-1), self._report
        )
        self._orphaned = False
        self._dismissed = False
        self._lost_alive = False
        self._is_over = False

    def run(self) -> None:
        self._loop.on_signal(signal.SIGCHLD, self._children.reap)
        sock = self._line.fileno()
        os.set_blocking(sock, False)
        self._loop.watch(sock, READ, self._read)
        crash.point("keeper-locked")
        self._body.start()
        crash.point("keeper-forked")
        self._post.plumbing.close_job_ends()
        self._loop.run()
        if self._orphaned:
            self._drain()

    def _read(self) -> None:
        for request in self._line.receive():
            self._obey(request)
        if self._line.is_over and not self._dismissed:
            self._loop.unwatch(self._line.fileno())
            self._orphaned = True
            self._lost_alive = not self._body.leader_ended
            if self._is_over:
                self._loop.stop()
            else:
                self._body.kill()

    def _obey(self, request: dict[str, Any]) -> None:
        op = request["op"]
        if op == "signal":
            self._body.signal(request["signum"], request["target"])
        elif op == "blame":
            self._body.blame(request["cause"], request["reason"])
        elif op == "kill":
            self._body.kill()
        elif op == "close":
            self._close(request["stream"])
        elif op == "bye":
            self._dismissed = True
            self._loop.stop()

    def _close(self, stream: int) -> None:
        for source in [s for s in self._sources if s.stream == stream]:
            os.close(source.fd)
            self._sources.remove(source)

    def _report(self, event: dict[str, Any]) -> None:
        if event["event"] == "empty":
            self._is_over = True
            self._post.plumbing.close_held()
            if self._orphaned:
                event["exit"] = self._own_up(event["exit"])
            crash.point("keeper-ended")
            self._birth.record(event["exit"])
            crash.point("keeper-recorded")
            if self._orphaned:
                self._loop.stop()
        self._line.send(event)

    def _own_up(self, ending: dict[str, Any]) -> dict[str, Any]:
        """A job that was ended because its supervisor died is lost, whatever its status says."""
        if self._lost_alive:
            text = "the supervisor died while the job ran"
            return exits.lost(self._body.started_at, time.time(), text)
        return ending

    def _look(self) -> None:
        self._body.look()

    def _drain(self) -> None:
        """What the supervisor had not read yet, behind what it had written."""
        request = self._post.request
        segment = Writer(
            self._post.stem + LOG,
            rank=request.get("rank") or 0,
            index=request.get("index") or 0,
            limit=request.get("log_limit_bytes"),
            clock=time.time,
        )

        def out(source: Source, data: bytes) -> None:
            segment.write(source.stream, data)

        for source in self._sources:
            redactor = launches.redactor(request, midway=True)
            Pump(self._loop, source, redactor, out, lambda: False).drain()
        segment.finish()


class _Line:
    """JSON lines over one end of a socket pair."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self.is_over = False

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def send(self, message: dict[str, Any]) -> None:
        """Small and few: a full socket can't be but for a peer that is stopped or dead."""
        try:
            self._sock.send(json.dumps(message).encode("ascii") + b"\n")
        except OSError:
            pass

    def receive(self) -> list[dict[str, Any]]:
        """What has come; `is_over` once the other end is closed."""
        while True:
            try:
                data = self._sock.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.is_over = True
                break
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]


def _print_error(error: BaseException) -> None:
    traceback.print_exception(type(error), error, error.__traceback__)
