"""The attached client of a job on another machine: its log as it comes, its signals, its end.

    with FarAttachment() as attachment:
        job = submit(...)
        report = attachment.relay(wire, job["id"])
    interrupts.end_as(report)

Output goes to descriptors 1 and 2 as it was written there, each to its own. The job has a log and
no terminal: Ctrl-C asks the plane, Ctrl-Z stops this client alone. SIGHUP, SIGKILL and a server
that stays away leave the job running. The loop belongs to the main thread.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from gpulayer.api.paths import job_path
from gpulayer.clock import SystemClock
from gpulayer.errors import GPULayerError
from gpulayer.runtime.rank_lines import RankLines, element_label, label
from gpulayer.runtime.segments import BOTH, LAUNCHER, NOTE, PREPARE, STDERR, STDOUT, Record
from gpulayer.sdk import interrupts
from gpulayer.sdk.caught import Caught
from gpulayer.sdk.interrupts import ExitReport, Ladder
from gpulayer.sdk.log_feed import LogFeed, News
from gpulayer.sdk.streams import Outlet

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire

TELL_SECONDS = 5.0
"""How long a client that must end waits until its last word is heard."""


class FarAttachment:
    """One client, one job."""

    def __init__(self, say: Callable[[str], None], *, is_talking: bool = True) -> None:
        """`say` gets lines for the person. Quiet, only what the person must know is said."""
        self._say = say
        self._is_talking = is_talking
        self._caught = Caught()
        self._ladder = Ladder()
        self._clock = SystemClock()
        self._report: ExitReport | None = None
        self._outlets: dict[int, Outlet] = {}
        self._lines: dict[tuple[int, int], RankLines] = {}
        self._in_ranks = self._in_elements = False
        self._wire: Wire | None = None
        self._job_id = ""

    def __enter__(self) -> Self:
        """From here on no signal ends this process: one that comes while the job is submitted is
        dealt with by `relay`, which knows the job."""
        self._caught.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._caught.__exit__(*error)

    def relay(
        self, wire: Wire, job_id: str, *, in_ranks: bool = False, in_elements: bool = False
    ) -> ExitReport:
        """Carry the log until the job has ended, or the person left it. Within `with` only.
        `in_ranks`: it is several processes, whose lines are kept apart; `in_elements`: those of
        an array.

        Raises what the server answers where the job can be followed no further; it goes on.
        """
        self._wire, self._job_id = wire, job_id
        self._in_ranks, self._in_elements = in_ranks, in_elements
        out, err = Outlet(1), Outlet(2)
        self._outlets = {STDOUT: out, BOTH: out, STDERR: err}
        if self._is_talking:
            self._outlets |= {NOTE: err, PREPARE: err}
        feed = LogFeed(wire.aside(), job_id)
        try:
            while self._report is None or out.is_full or err.is_full:
                self._turn(feed, out, err)
                if self._report is not None and self._report.outcome == "left":
                    break
            return self._report
        finally:
            feed.close()

    def _turn(self, feed: LogFeed, out: Outlet, err: Outlet) -> None:
        poll = select.poll()
        poll.register(self._caught.fd, select.POLLIN)
        for outlet in (out, err):
            if not outlet.has_left:
                # No event asked for still tells of a reader that left (POLLERR).
                poll.register(outlet.fd, select.POLLOUT if outlet.is_full else 0)
        if self._report is None and not (out.is_full or err.is_full):
            poll.register(feed.fileno(), select.POLLIN)
        ready = dict(poll.poll())
        if self._caught.fd in ready:
            for signum in self._caught.arrived():
                self._on_signal(signum)
        for outlet in (out, err):
            events = ready.get(outlet.fd, 0)
            if events & select.POLLOUT:
                outlet.flush()
            if events & (select.POLLERR | select.POLLNVAL):
                outlet.leave()
        if out.has_left and self._report is None:
            self._reader_left()
        elif feed.fileno() in ready:
            self._hear(feed.take())

    def _hear(self, news: News) -> None:
        for record in news.records:
            if (outlet := self._outlets.get(record.stream)) is not None:
                outlet.put(self._of_rank(record) if self._in_ranks else record.data)
        if news.lost is not None:
            self._say(f"{news.lost.where} does not answer; {self._job_id} goes on without us")
        if news.is_back:
            self._say(f"the server is back; {self._job_id} is followed from where it was")
        if news.job is not None:
            self._report = _report_of(news.job)
            for (stream, _), lines in self._lines.items():
                self._outlets[stream].put(lines.rest())
        if news.error is not None:
            news.error.job_id = news.error.job_id or self._job_id
            raise news.error

    def _of_rank(self, record: Record) -> bytes:
        if record.rank == LAUNCHER:
            return record.data
        number = record.index if self._in_elements else record.rank
        key = (record.stream, number)
        if key not in self._lines:
            shows = os.isatty(2 if record.stream == STDERR else 1)
            mark = element_label(number) if self._in_elements else label(number)
            self._lines[key] = RankLines(mark if shows else b"")
        data = self._lines[key].feed(record.data)
        if not self._lines[key].is_open:
            del self._lines[key]  # an array may have many
        return data

    def _reader_left(self) -> None:
        """Whoever read our output has gone. A job here would be told with SIGPIPE; this one is
        asked to end."""
        self._cancel("term").join(TELL_SECONDS)
        self._report = ExitReport("left", 128 + signal.SIGPIPE, signal=signal.SIGPIPE)

    # --- signals ----------------------------------------------------------------------------

    def _on_signal(self, signum: int) -> None:
        if signum == signal.SIGINT:
            self._interrupt()
        elif signum == signal.SIGTERM:
            self._cancel("term")
        elif signum == signal.SIGTSTP:
            self._caught.stop_here()
        elif signum in (signal.SIGHUP, signal.SIGQUIT):
            if signum == signal.SIGQUIT:
                self._say(f"left {self._job_id}, which goes on: gpulayer logs -f {self._job_id}")
            interrupts.die_by(signum)

    def _interrupt(self) -> None:
        meaning = self._ladder.press(self._clock.monotonic(), is_key=False)
        if meaning == interrupts.INTERRUPT:
            self._cancel("int", interrupts.GRACE_SECONDS)
            self._say(
                f"interrupting {self._job_id}: SIGINT, TERM in {interrupts.GRACE_SECONDS:.0f} s, "
                "then KILL (Ctrl-C again: KILL now). To keep a job, close its terminal instead"
            )
        elif meaning == interrupts.KILL:
            self._cancel("kill")
            self._say(f"killing {self._job_id}, waiting until all of it is gone (Ctrl-C: leave)")
        else:
            self._say(f"left {self._job_id} while it ends: gpulayer status {self._job_id}")
            self._report = ExitReport("left", 130, reason="user", message="left while it ended")

    def _cancel(self, mode: str, grace_seconds: float | None = None) -> threading.Thread:
        """Ask for the job's end on a connection of its own; returns at once."""
        assert self._wire is not None
        wire, path = self._wire.aside(), job_path(self._job_id, "cancel")
        body: dict[str, Any] = {"mode": mode}
        if grace_seconds is not None:
            body["grace_seconds"] = grace_seconds

        def ask() -> None:
            try:
                wire.call("POST", path, body)
            except GPULayerError as error:
                self._say(f"{self._job_id} could not be told to end: {error.message}")
            finally:
                wire.close()

        thread = threading.Thread(target=ask, name="gpulayer-cancel", daemon=True)
        thread.start()
        return thread


def _report_of(job: dict[str, Any]) -> ExitReport:
    report = ExitReport.of_job(job)
    signum = int(job.get("exit_code") or 0) - 128
    is_by_signal = report.reason in ("killed", "out_of_memory") or job["state"] == "cancelled"
    if is_by_signal and 0 < signum < signal.NSIG:
        report.signal = signum
    return report
