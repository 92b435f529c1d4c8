"""The attached client of one job here: its streams, its keys, its signals, its end.

    with Attachment.open(places, world) as attachment:
        job = submit(..., attach_id=attachment.attach_id, envelope_id=attachment.envelope_id)
        report = attachment.relay(job["id"])
    interrupts.end_as(report)

Bytes come from the supervisor in frames and go to descriptors 1 and 2 as they are; a reader that
stops holds the job back, a reader that leaves is told to it. The client ends after the last byte.
Losing the client (a closed terminal, SIGKILL) detaches: the job goes on and so does its log.

The loop belongs to the main thread, since it owns the process's signals while it runs.

    attach_request   what is asked of the supervisor       reactions   what signals and keys do
    streams          descriptors 0, 1 and 2                plane_side  what only the plane knows
    terminal         the person's terminal                 interrupts  what Ctrl-C means; the end
"""

from __future__ import annotations

import os
import select
import signal

from gpulayer.runtime import frames, segments
from gpulayer.sdk import streams, terminal
from gpulayer.sdk.attach_request import AttachRequest
from gpulayer.sdk.caught import Caught
from gpulayer.sdk.interrupts import ExitReport
from gpulayer.sdk.plane_side import PlaneSide
from gpulayer.sdk.reactions import Reactions
from gpulayer.sdk.streams import Outlet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from gpulayer.sdk.places import Places
    from gpulayer.sdk.terminal import Screen
    from gpulayer.sdk.world import World

LOOK_SECONDS = 0.05
ASK_SECONDS = 0.1
"""A job that has not begun by then may never: from then on the plane is asked too."""


class Attachment:
    """One client, one job. `close` (or `with`) restores the terminal whatever happened."""

    def __init__(
        self,
        supervisor: frames.Connection,
        screen: Screen | None,
        request: AttachRequest,
        reply: dict[str, Any],
        plane: PlaneSide,
        say: Callable[[str], None],
    ) -> None:
        self.attach_id: str = reply["attach_id"]
        self.envelope_id: str = reply["envelope_id"]
        self._supervisor = supervisor
        self._screen = screen
        self._request = request
        self._plane = plane
        self._caught = Caught()
        self._reactions = Reactions(self._send, plane, screen, request.streams, self._caught, say)
        self._outlets: dict[str, Outlet] = {}
        self._report: ExitReport | None = None
        self._last: ExitReport | None = None
        """How the attempt before ended."""
        self._is_unseen = False
        """The job ran, and nothing of it came here."""
        self._attempts = 1

    @classmethod
    def open(
        cls,
        places: Places,
        seen: World,
        *,
        stdin: bool = True,
        in_ranks: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> Self:
        """Register this terminal with the supervisor, before the job is submitted.

        `stdin=False`: the job reads nothing. `in_ranks`: it will be several processes. `say` gets
        lines for the person, without newline.
        Raises `wrong-world`, `plane-unreachable`.
        """
        screen = terminal.Screen.controlling()
        try:
            decide = streams.for_ranks if in_ranks else streams.decide
            request = AttachRequest(places, seen, screen, decide(screen, stdin=stdin))
            supervisor, reply = request.send()
        except BaseException:
            if screen is not None:
                screen.close()
            raise
        return cls(supervisor, screen, request, reply, PlaneSide(places), say or _to_stderr)

    def __enter__(self) -> Self:
        """From here on no signal ends this process: one that comes while the job is submitted is
        dealt with by `relay`, which knows the job."""
        self._caught.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._caught.__exit__(*error)
        self.close()

    def close(self) -> None:
        """Give the terminal back and leave. A running job goes on. Twice-safe."""
        if self._screen is not None:
            self._screen.close()
        self._supervisor.close()
        self._plane.close()

    def relay(self, job_id: str, *, attempts: int = 1, has_limit: bool = False) -> ExitReport:
        """Carry bytes, keys and signals until the job has ended, or the person left it. Within
        `with` only. `attempts`: how many the job may have; a failed one may not be its last.
        `has_limit`: its time is limited."""
        self._attempts = attempts
        self._reactions.has_limit = has_limit
        self._plane.job_id = self._reactions.job_id = job_id
        self._outlets = {frames.STDOUT: Outlet(1), frames.STDERR: Outlet(2)}
        self._outlets[frames.TERMINAL] = self._outlets[frames.STDOUT]
        try:
            while self._report is None or any(o.is_full for o in self._outlets.values()):
                self._turn()
                if self._reactions.has_left:
                    return ExitReport("left", 130, reason="user", message="left while it ended")
            if self._is_unseen:
                self._show_log()
            return self._report
        finally:
            if self._screen is not None:
                self._screen.restore()

    # --- the loop ---------------------------------------------------------------------------

    def _turn(self) -> None:
        poll = select.poll()
        poll.register(self._caught.fd, select.POLLIN)
        full = False
        for outlet in set(self._outlets.values()):
            if not outlet.has_left:
                # No event asked for still tells of a reader that left (POLLERR).
                poll.register(outlet.fd, select.POLLOUT if outlet.is_full else 0)
                full = full or outlet.is_full
        watched = self._supervisor_fd()
        if watched >= 0 and not full:
            poll.register(watched, select.POLLIN)
        keys = self._key_fd()
        if keys >= 0:
            poll.register(keys, select.POLLIN)
        plane = self._plane.fileno()
        if plane >= 0:
            poll.register(plane, select.POLLIN)
        ready = dict(poll.poll(self._patience()))
        if self._caught.fd in ready:
            for signum in self._caught.arrived():
                if signum == signal.SIGHUP:
                    self.close()
                self._reactions.to(signum)
        self._write(ready)
        if watched in ready:
            self._receive()
        if keys in ready:
            self._type(keys)
        if plane in ready:
            self._plane.hear()
        self._believe_plane()
        self._reactions.look()
        if not ready and not self._reactions.has_started and self._report is None:
            self._plane.ask()

    def _supervisor_fd(self) -> int:
        return -1 if self._report is not None or self._plane.is_alone else self._supervisor.fileno()

    def _key_fd(self) -> int:
        screen = self._screen
        return screen.fd if screen is not None and screen.is_raw and self._report is None else -1

    def _patience(self) -> float | None:
        """Milliseconds until something is due without any news."""
        if self._reactions.is_stopping:
            return LOOK_SECONDS * 1000
        if not self._reactions.has_started and not self._plane.is_asked and self._report is None:
            return ASK_SECONDS * 1000
        return None

    def _write(self, ready: dict[int, int]) -> None:
        for frame in (frames.STDOUT, frames.STDERR):
            outlet = self._outlets[frame]
            events = ready.get(outlet.fd, 0)
            if events & select.POLLOUT:
                outlet.flush()
            if events & (select.POLLERR | select.POLLNVAL) and not outlet.has_left:
                outlet.leave()
            if outlet.has_left and events:
                self._send({"op": "closed", "stream": int(frame)})

    def _receive(self) -> None:
        try:
            arrived = self._supervisor.ready()
        except (EOFError, OSError):
            self._on_supervisor_gone()
            return
        for kind, payload, fds in arrived:
            for fd in fds:
                os.close(fd)
            if kind == frames.JSON:
                self._on_event(payload)
            elif kind in self._outlets:
                outlet = self._outlets[kind]
                had_left = outlet.has_left
                outlet.put(payload)
                if outlet.has_left and not had_left:
                    self._send({"op": "closed", "stream": 2 if kind == frames.STDERR else 1})

    def _on_supervisor_gone(self) -> None:
        """A job that has not begun can still begin under the next one, with these streams. Of one
        that has, only the plane can say how it ended."""
        if not self._reactions.has_started:
            from gpulayer.errors import GPULayerError

            self._supervisor.close()
            try:
                self._supervisor, _ = self._request.send(self.attach_id)
            except GPULayerError:
                self._plane.ask(alone=True)
        else:
            self._plane.ask(alone=True)

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "started":
            self._reactions.job_started()
        elif kind == "exited":
            self._on_exit(ExitReport.of_task(event["exit"]))
        elif kind == "flags" and self._screen is not None:
            self._screen.mirror_signals(bool(event["isig"]))
        elif kind == "stopped":
            self._reactions.job_stopped()

    def _on_exit(self, report: ExitReport) -> None:
        if self._attempts > 1 and report.outcome in ("failed", "timed_out", "lost"):
            self._attempts -= 1
            self._last = report
            self._reactions.has_started = (
                False  # the next attempt comes here too, or the plane says no
            )
            if self._screen is not None:
                self._screen.restore()
        else:
            self._report = report

    def _believe_plane(self) -> None:
        """The plane may know the end before all output is here, so its word counts only where the
        supervisor's will not come: the job never began, or the supervisor is gone."""
        job = self._plane.job
        if job is None or self._report is not None:
            return
        if self._plane.is_alone or not self._reactions.has_started:
            report = ExitReport.of_job(job)
            last = self._last
            begun = job.get("started_at") is not None
            self._is_unseen = begun and last is None and not self._reactions.has_started
            is_last = last is not None and last.exit_code == report.exit_code
            self._report = last if is_last else report

    def _show_log(self) -> None:
        """The job began and ended before this client was back at its supervisor: what it wrote is
        in its log, as the bytes that it would have written here."""
        for record in self._plane.log():
            if record.stream in (segments.STDOUT, segments.BOTH, segments.STDERR):
                frame = frames.STDERR if record.stream == segments.STDERR else frames.STDOUT
                outlet = self._outlets[frame]
                outlet.put(record.data)
                while outlet.is_full:
                    select.select((), (outlet.fd,), ())
                    outlet.flush()

    def _type(self, fd: int) -> None:
        try:
            keys = os.read(fd, 4096)
        except BlockingIOError:
            return
        except OSError:
            keys = b""
        if keys:
            self._send(keys)
        elif self._screen is not None:
            self._screen.is_raw = False  # hung up: nothing to read, nothing to restore

    def _send(self, what: bytes | dict[str, Any]) -> None:
        """Keys or an order, on their way to the job."""
        try:
            if isinstance(what, bytes):
                self._supervisor.send(frames.INPUT, what)
            else:
                self._supervisor.send_json(what)
        except OSError:
            pass  # it is gone; the next read says so


def _to_stderr(text: str) -> None:
    os.write(2, f"{text}\n".encode())
