"""One task in the supervisor: its body, its streams, its log, its deadline, and who watches.

    begin -> (forked) -> started -> ... -> body empty -> pumps drained -> exited -> forgotten

The `exited` event and the end of the log always come after the last byte of output. All that can
happen to a task stands here in the order of its life, which makes this longer than others.
"""

from __future__ import annotations

import os
import signal

from gpulayer.runtime import cgroup, crash, exits, frames, launches, plumbing, rank_lines, terminal
from gpulayer.runtime.body import Body
from gpulayer.runtime.journal import LISTED, Birth
from gpulayer.runtime.keeper import Keeper
from gpulayer.runtime.keeping import Post
from gpulayer.runtime.ladder import Ladder
from gpulayer.runtime.past import BIRTH, LOG, remove_files
from gpulayer.runtime.segments import STDOUT, Relay, Writer
from gpulayer.runtime.streams import Keyboard, Pump
from gpulayer.runtime.tails import Tails

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.attaches import Attach
    from gpulayer.runtime.forking import Forking
    from gpulayer.runtime.loop import Loop, Timer
    from gpulayer.runtime.plumbing import Source
    from gpulayer.runtime.processes import Children
    from gpulayer.runtime.quick import Quick
    from gpulayer.runtime.rank_lines import RankLines
    from gpulayer.runtime.zygotes import Zygotes

RECORD_SECONDS = 1.0
"""Between two tries to write an end to a disk that refuses it."""


class Task:
    """`ended` is called once nothing of the task lives and its exit is on disk; `orphaned` where
    its keeper dies before."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        quick: Quick,
        request: dict[str, Any],
        stem: str,
        clock: Callable[[], float],
        ended: Callable[[Task], object],
        orphaned: Callable[[Task], object],
    ) -> None:
        self._loop = loop
        self._children = children
        self._quick = quick
        self._request = request
        self._stem = stem
        self._clock = clock
        self._ended = ended
        self._orphaned = orphaned
        self.task_id: str = request["task_id"]
        self.pid: int | None = None
        self._started_at: float | None = None
        self.exit: dict[str, Any] | None = None
        self.refusal: dict[str, Any] | None = None
        self.zygotes: Zygotes | None = None
        """Set before `begin` where it may be forked from one."""
        self._forking: Forking | None = None
        self.waiting: list[Callable[[], object]] = []
        """Called once it is known whether the task's program runs."""
        self._attach: Attach | None = None
        self._keyboard: Keyboard | None = None
        self._pumps: list[Pump] = []
        self._lines: dict[Source, RankLines] = {}
        self._deadline: Timer | None = None
        self._body: Body | Keeper
        self._leaf: cgroup.Leaf | None = None
        self._isig = True
        self._is_forgotten = False
        self.visits: dict[str, Callable[[dict[str, Any]], object]] = {}
        """Who hears of a visit, and of the end; see `visitors`."""
        self._birth = Birth(stem + BIRTH)
        self._segment = Writer(
            stem + LOG,
            rank=request.get("rank") or 0,
            index=request.get("index") or 0,
            limit=request.get("log_limit_bytes"),
            clock=clock,
            grown=self._grown,
        )
        self.tails = Tails(self._segment)
        self._relay = Relay(self._segment) if request.get("records") else None

    @property
    def is_running(self) -> bool:
        return self.exit is None

    @property
    def body(self) -> Body | Keeper:
        return self._body

    @property
    def told(self) -> dict[str, Any]:
        """What its starter hears besides: of one that may be forked, why it was not."""
        if "warm" not in self._request:
            return {}
        why = self._forking.why if self._forking else "nothing here holds a forked process"
        return {"cold": why}

    def begin(self, envelope: dict[str, Any], attach: Attach | None, leaf_path: str | None) -> None:
        """Forks. OSError and SpawnError where that can't be; then nothing of it is left running."""
        shape = attach.request if attach else None
        stdin = plumbing.standard_input(self._request.get("stdin"), attach)
        self._plumbing = plumbing.lay(shape, stdin, self._request.get("pipes") or ())
        try:
            redactors = [launches.redactor(self._request) for _ in self._plumbing.sources]
            self._body = self._make_body(envelope, leaf_path)
            self._ladder = Ladder(self._loop, self._body)
            self._birth.reserve()
            crash.point("supervisor-birth")
            self._body.start()
            crash.point("supervisor-forked")
        except BaseException:
            self._plumbing.close()
            if self._forking is not None:
                self._forking.give_up()
            if self._leaf is not None:
                self._leaf.close()
            raise
        self._plumbing.close_job_ends()
        self._attach = attach
        if attach is not None:
            attach.task = self
            attach.peer.drained = self._resume
            self._lines = rank_lines.of(self._plumbing.sources, attach.request.get("labels") or ())
        for source, redactor in zip(self._plumbing.sources, redactors):  # noqa: B905  as many
            self._pumps.append(Pump(self._loop, source, redactor, self._out, self._choked))
        if self._plumbing.keyboard >= 0:
            self._keyboard = Keyboard(self._loop, self._plumbing.keyboard)

    def cancel(self, mode: str, grace_seconds: float, reason: str | None = None) -> None:
        if self.is_running:
            self._body.blame(exits.CANCEL, reason)
            self._ladder.climb(mode, grace_seconds)

    def signal(self, signum: int, target: str) -> None:
        if self.is_running:
            self._body.signal(signum, target)

    def type(self, data: bytes) -> None:
        """Keys for the job's terminal; nothing stands for the end of input."""
        if self._keyboard is not None:
            master = self._plumbing.keyboard
            if terminal.interrupts(master, data):
                self._body.blame(exits.INTERRUPT)
            self._keyboard.type(data or terminal.end_of_input(master))

    def resize(self, rows: int, cols: int) -> None:
        for pump in self._pumps:
            if pump.is_open and os.isatty(pump.source.fd):
                terminal.resize(pump.source.fd, rows, cols)
                if self._keyboard is None and self.is_running:
                    self._body.signal(signal.SIGWINCH)  # no kernel tells who has no keyboard

    def reader_left(self, stream: int) -> None:
        """Nobody reads that output any more: the job shall learn it as it would from a pipe."""
        for pump in self._pumps:
            labels = (stream, 3) if pump.source.frame == frames.TERMINAL else (stream,)
            if pump.is_open and pump.source.stream in labels and not os.isatty(pump.source.fd):
                pump.close()
                self._body.close_stream(pump.source.stream)
                self._segment.note("the reader of the output left")

    def is_visitable(self, fence: int | None) -> bool:
        return self.is_running and self.pid is not None and fence == self._request.get("fence")

    def detach(self) -> None:
        self._attach = None
        self._resume()

    def look(self) -> bool:
        return self._body.look()

    def lose(self, message: str) -> None:
        """Its keeper is dead and nothing of it lives. What the keeper wrote before still counts."""
        written = self._birth.exit()
        self._end_outside(written or exits.lost(self._started_at, self._clock(), message))

    def describe(self) -> dict[str, Any]:
        return {
            **{key: self._request.get(key) for key in LISTED},
            "state": "running" if self.is_running else "exited",
            "pid": self.pid,
            "exit": self.exit,
            "log_size": self._segment.size,
        }

    def redact(self, texts: list[str]) -> list[str]:
        """What the task left besides its log, without the values of its secrets."""
        return [launches.redacted(self._request, text) for text in texts]

    def forget(self) -> None:
        """Removes its files."""
        self._is_forgotten = True
        self._birth.close()
        self._segment.close()
        remove_files(self._stem)

    def _make_body(self, envelope: dict[str, Any], leaf_path: str | None) -> Body | Keeper:
        pipes = self._plumbing
        launch = launches.launch(self._request, envelope, pipes.environ)
        launch.stdin, launch.stdout, launch.stderr = pipes.job
        launch.controls = pipes.controls
        if self.zygotes is not None:
            launch.forking = self._forking = self.zygotes.forking(self._request, launch)
            self._leaf = self._forking.take_leaf()
        if self._leaf is None and leaf_path is not None:
            self._leaf = cgroup.Leaf(leaf_path)
        leaf = self._leaf
        if leaf is not None and pipes.controls < 0:
            return Body(self._loop, self._children, launch, leaf, self._quick, self._report)
        post = Post(launch, pipes, leaf, self._stem, self._request)
        return Keeper(self._loop, self._children, post, self._report)

    def _report(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "started":
            self._started(event)
        elif kind == "refused":
            self.refusal = {key: event[key] for key in ("code", "message", "errno")}
        elif kind == "empty":
            self._end_outside(event["exit"])
        elif kind == "orphaned":
            self._orphaned(self)
        elif kind == "visit":
            if (told := self.visits.get(event.pop("visit"))) is not None:
                told(event)
        elif self._attach is not None:
            self._attach.event(event)

    def _started(self, event: dict[str, Any]) -> None:
        self.pid = event["pid"]
        self._started_at = event["at"]
        crash.point("supervisor-started")
        if self._attach is not None:
            self._attach.event({"event": "started", "task_id": self.task_id, "pid": self.pid})
        timeout = self._request.get("timeout_seconds")
        if timeout is not None:
            left = max(0.0, event["at"] + timeout - self._clock())
            self._deadline = self._loop.after(left, self._run_out)
        self._answer()

    def _run_out(self) -> None:
        self._body.blame(exits.TIMEOUT)
        self._ladder.climb("term", self._request.get("grace_seconds") or 0)

    def _end_outside(self, ending: dict[str, Any]) -> None:
        """What an engine runs for it ends before it is over."""
        outside = self._request.get("outside")
        if outside is None:
            self._finish(ending)
            return
        from gpulayer.runtime.outside import Ender, may_live  # few tasks have need of it

        def over(why: str) -> None:
            if why:
                self._segment.note(why)
            self._finish(ending)

        if may_live(ending):
            marker = f"{launches.MARKER}={launches.marker(self._request)}"
            Ender(self._loop, self._children, outside, marker, over).begin()
        else:
            self._finish(ending)

    def _finish(self, ending: dict[str, Any]) -> None:
        crash.point("supervisor-ended")
        self._ladder.leave()
        if self._deadline is not None:
            self._deadline.cancel()
        self._plumbing.close_held()
        for pump in self._pumps:
            pump.drain()
        for source, lines in self._lines.items():
            if self._attach is not None:
                self._attach.output(source.frame, lines.rest())
        if self._keyboard is not None:
            self._keyboard.close()
        if ending["leftovers"]:
            left = ending["leftovers"]
            what = "1 process" if left == 1 else f"{left} processes"
            self._segment.note(f"ended what the job left running: {what}")
        self._segment.finish()
        self._record(ending)
        crash.point("supervisor-recorded")
        self.exit = self.tails.exit = ending
        self._body.release()
        if self._leaf is not None:
            self._leaf.close()
        if self.refusal is not None:
            self.refusal["exit"] = ending
        self._tell(ending)
        for told in self.visits.values():
            told({"exit": ending})
        self._answer()
        self.tails.look()
        self._ended(self)

    def _record(self, ending: dict[str, Any]) -> None:
        """Again and again on a disk that does not take it; until then this process knows it."""
        if not self._is_forgotten and self._birth.exit() is None and not self._birth.record(ending):
            self._loop.after(RECORD_SECONDS, lambda: self._record(ending))

    def _tell(self, ending: dict[str, Any]) -> None:
        if self._attach is not None:
            self._attach.event({"event": "exited", "task_id": self.task_id, "exit": ending})
            self._attach.task = None
            self._attach = None

    def _answer(self) -> None:
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()

    def _out(self, source: Source, data: bytes) -> None:
        crash.point("supervisor-read")
        if self._relay is not None and source.stream == STDOUT:
            self._relay.feed(data)
        else:
            self._segment.write(source.stream, data, source.rank)
        crash.point("supervisor-written")
        if self._attach is not None:
            lines = self._lines.get(source)
            self._attach.output(source.frame, data if lines is None else lines.feed(data))
            if self._plumbing.controls >= 0:
                self._mirror_signals(source.fd)

    def _mirror_signals(self, master: int) -> None:
        isig = terminal.keeps_signals(self._plumbing.controls)
        if isig != self._isig and self._attach is not None:
            self._isig = isig
            self._attach.event({"event": "flags", "isig": isig})

    def _choked(self) -> bool:
        return self._attach is not None and self._attach.choked

    def _resume(self) -> None:
        for pump in self._pumps:
            pump.resume()

    def _grown(self) -> None:
        self.tails.look()
