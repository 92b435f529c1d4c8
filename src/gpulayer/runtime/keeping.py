"""The life of a keeper's process: see `gpulayer.runtime.keeper` for what a keeper is."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import sys
import time

from gpulayer.runtime import crash, exits, launches, processes, spawn, visits
from gpulayer.runtime.body import Body
from gpulayer.runtime.journal import Birth
from gpulayer.runtime.lines import Line
from gpulayer.runtime.loop import READ, Loop
from gpulayer.runtime.past import BIRTH, LOG
from gpulayer.runtime.processes import Children
from gpulayer.runtime.quick import Quick
from gpulayer.runtime.segments import STDOUT, Relay, Writer
from gpulayer.runtime.streams import Pump

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, NoReturn

    from gpulayer.runtime.cgroup import Leaf
    from gpulayer.runtime.plumbing import Plumbing, Source

_WITHSTOOD = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE,
            signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)  # fmt: skip


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
        shared = memoryview(mmap.mmap(-1, mmap.PAGESIZE))
        for at, source in enumerate(plumbing.sources):
            source.copying = shared[at : at + 1]
        self.request = request


def keep(post: Post, sock: socket.socket) -> NoReturn:
    """Called in the child right after the fork, with all signals blocked."""
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
        sys.excepthook(*sys.exc_info())
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
        self._line = Line(sock)
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
        elif op == "visit":
            self._visit(request)
        elif op == "signal_visit":
            self._body.signal_visit(request["visit"], request["signum"])
        elif op == "end_visit":
            self._body.end_visit(request["visit"])
        elif op == "close":
            self._close(request["stream"])
        elif op == "bye":
            self._dismissed = True
            self._loop.stop()

    def _visit(self, request: dict[str, Any]) -> None:
        fds = self._line.take(request["fds"])
        try:
            self._body.visit(request, fds)
        except (spawn.SpawnError, OSError) as error:
            refused = error if isinstance(error, spawn.SpawnError) else None
            refused = refused or spawn.SpawnError("spawn-failed", str(error))
            told = {"visit": request["visit"], "what": "ended", **visits.ending(0, refused)}
            self._line.send({"event": "visit", **told})
        finally:
            for fd in fds:
                os.close(fd)

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

        relay = Relay(segment) if request.get("records") else None

        def out(source: Source, data: bytes) -> None:
            if relay is not None and source.stream == STDOUT:
                relay.feed(data)
            else:
                segment.write(source.stream, data, source.rank)

        for source in self._sources:
            if source.copying[0]:
                segment.note("some output is missing here: the supervisor died while it copied")
            redactor = launches.redactor(request, midway=True)
            Pump(self._loop, source, redactor, out, lambda: False).drain()
        segment.finish()


def _print_error(error: BaseException) -> None:
    sys.excepthook(type(error), error, error.__traceback__)
