"""A plane inside the calling process: `gl.connect(embedded=True | PATH | ":memory:")`.

Store, plane and worker are threads of the program; clients call them without a socket. The
supervisor alone is a process of its own, since it owns the jobs' processes, and it is spawned, not
forked. On a folder the plane takes the lock as any other: a local plane hands over, and other
terminals find this one behind the same socket. In memory nobody else sees it, and its supervisor
ends with it whatever happens to the program.

Leaving cancels the unfinished jobs that were submitted through it, and says so. What it took over,
and what others submitted, goes back to a fresh local plane.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Any

from gpulayer.api.direct import Direct
from gpulayer.api.direct_channel import DirectChannel
from gpulayer.api.wire import Wire
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.errors import GPULayerError, RefusedError
from gpulayer.sdk import local, processes, scratch, siblings, waiting
from gpulayer.sdk.client import Client
from gpulayer.sdk.declared import Declared
from gpulayer.sdk.embedded_door import Door
from gpulayer.sdk.origin import Submitter
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import Seat, is_held
from gpulayer.sdk.wiring import Wired, uploads_of
from gpulayer.worker.process import Outside, Worker

MEMORY = ":memory:"
TICK_SECONDS = 1.0
LEAVE_SECONDS = 10.0
"""How long cancelled jobs, and then the supervisor, may take to end."""


def open_embedded(folder: str | None) -> Client:
    """A client of a new plane on `folder`; None: the usual one; ":memory:": none.

    Closing the client ends the plane. Raises `plane-held` where another process holds the folder
    and does not hand it over.
    """
    if folder == MEMORY:
        plane = EmbeddedPlane(*scratch.make(), in_memory=True)
    else:
        environ = os.environ if folder is None else {**os.environ, "GPULAYER_HOME": folder}
        places = Places.find(environ)
        places.create()
        plane = _on_folder(places)
    return EmbeddedClient(plane)


class EmbeddedClient(Client):
    """The client with which a program opened its plane: they end together."""

    def __init__(self, plane: EmbeddedPlane) -> None:
        super().__init__(plane.transport, Submitter(plane.places))
        self._plane = plane
        _open.add(self)

    def close(self) -> None:
        """Cancel what was submitted through it, and end the plane. Twice-safe."""
        _open.discard(self)
        if self._plane.is_mine:
            try:
                self._plane.cancel(self.session)
            finally:
                super().close()
                self._plane.close()
        else:
            super().close()

    def forget(self) -> None:
        super().forget()
        self._plane.let_go()


class EmbeddedPlane:
    """One plane at work; the `Host` of its handlers. Thread-safe."""

    kind = "embedded"
    names: Collection[str] = ()

    def __init__(self, places: Places, seat: Seat, *, in_memory: bool = False) -> None:
        """Takes `seat` as its own. Raises what the store raises; nothing is left open then."""
        self.places = places
        self.home = MEMORY if in_memory else places.home
        self.uploads = uploads_of(places.artifacts)
        self.pid = os.getpid()
        self._is_open = True
        self._seat = seat
        self._in_memory = in_memory
        self._closing = threading.Lock()
        self._owner: tuple[int, ...] = os.pipe() if in_memory else ()
        self._ended = threading.Event()
        with ExitStack() as undo:
            undo.callback(self.let_go)
            seat.announce(self.kind)
            self._wired = Wired(places, self, MEMORY if in_memory else "")
            undo.callback(self._wired.close)
            if not in_memory:
                seat.bind()
                processes.end(places, "agent")  # the one of the plane before; it keeps no state
            self._start_supervisor()
            self._worker = self._make_worker()
            self._worker.start()
            undo.pop_all()
        self._door = None if in_memory else Door(seat, self._wired)
        self._ticks = threading.Thread(target=self._tick, name="gpulayer-ticks", daemon=True)
        self._ticks.start()

    def transport(self) -> Any:
        """A way to this plane for the calling process, which may be a forked child."""
        if os.getpid() == self.pid:
            return Direct(self._wired.handlers)
        if self._in_memory:
            raise RefusedError(
                "plane-held",
                f"this plane lives in the memory of process {self.pid}, which forked this one",
                why="only that process can use it",
                hint='gl.connect(embedded=":memory:")',
            )
        return Wire(self.places.plane_socket)

    def cancel(self, session: str) -> None:
        """Cancel the unfinished jobs of that client, say so, and wait for their end."""
        plane = self._wired.plane
        jobs = plane.cancel_session(session).result()
        if jobs:
            names = ", ".join(job.id for job in jobs[:5]) + (", ..." if len(jobs) > 5 else "")
            sys.stderr.write(f"gpulayer: cancelled with its embedded plane: {names}\n")
        clock = SystemClock()
        end = clock.monotonic() + LEAVE_SECONDS
        for job in jobs:
            path = Client.path(job.id, wait=max(0.0, end - clock.monotonic()), until="finished")
            Direct(self._wired.handlers).call("GET", path)

    def close(self) -> None:
        """End it. Jobs that are not finished go back to a local plane; in memory they end."""
        with self._closing:
            if not self._is_open:
                return
            self._is_open = False
        self._ended.set()
        is_gone = not self._is_in_place()
        unfinished = 0 if is_gone else self._wired.unfinished()
        try:
            if unfinished == 0 and not is_gone:
                self._wired.dismiss()
                self._worker.has_left(LEAVE_SECONDS)
            if self._door is not None:
                self._seat.unlink()
                self._door.close()
        finally:
            self._worker.stop()
            if self._ticks is not threading.current_thread():
                self._ticks.join()
            self._wired.close()
            self.let_go()
        if self._in_memory:
            self._remove()
        elif unfinished:
            local.start(self.places)

    def let_go(self) -> None:
        """Close every descriptor by which this process holds the home; a forked child must, or it
        would keep a dead program's jobs alive. Twice-safe."""
        self._seat.close()
        descriptors, self._owner = self._owner, ()
        for fd in descriptors:
            os.close(fd)

    @property
    def is_mine(self) -> bool:
        """Whether it is at work, in this very process."""
        return self._is_open and os.getpid() == self.pid

    # --- what the handlers ask of the process --------------------------------------------------

    def stop(self) -> None:
        raise self._held()

    def takeover(self, wish: Mapping[str, Any]) -> Mapping[str, Any]:
        from gpulayer.sdk.handover import refusal

        return {"ok": False, "why": refusal(self.kind, dict(wish))}

    def processes(self) -> list[dict[str, Any]]:
        found = [{"kind": "plane", "pid": self.pid, "note": "embedded"}]
        others = processes.running(self.places)
        return found + [{"kind": kind, "pid": pid} for kind, pid in others]

    def front(self) -> Mapping[str, Any]:
        return {}

    # --- inside ---------------------------------------------------------------------------------

    def _make_worker(self) -> Worker:
        declared = Declared(self.places.state)
        outside = Outside(
            lock=os.path.join(self.places.state, "agent.lock"),
            tasks=self.places.tasks,
            supervisor_socket=self.places.supervisor_socket,
            start_supervisor=self._start_supervisor,
            start_plane=_nothing,
            on_error=self._complain,
            data=declared.data(),
            secrets=declared.secrets,
        )
        channel = DirectChannel(self._wired.plane, self._wired.artifacts)
        return Worker(channel, outside, SystemClock(), SystemIds())

    def _start_supervisor(self) -> None:
        if not local.answers(self.places.supervisor_socket):
            siblings.start_supervisor(self.places, self._owner[0] if self._owner else None)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            if not self._is_in_place():
                self.close()  # nobody can keep anything there any more: tell who waits
                return
            try:
                self._wired.tick()
            except GPULayerError as error:
                self._complain(error)

    def _is_in_place(self) -> bool:
        """Whether the home is still the one that was locked."""
        try:
            return os.path.samestat(os.fstat(self._seat.lock), os.stat(self.places.plane_lock))
        except OSError:
            return False

    def _complain(self, error: BaseException) -> None:
        """Into the home's log: a program's own output is not ours."""
        if isinstance(error, OSError | EOFError):
            return  # a supervisor that is being started
        text = "".join(traceback.format_exception(error))
        try:
            with open(self.places.process_log("agent"), "a", encoding="utf-8") as log:
                log.write(text)
        except OSError:
            pass  # the home is gone

    def _remove(self) -> None:
        """Wait for the supervisor, which lost its owner, and leave nothing behind."""
        clock = SystemClock()
        end = clock.monotonic() + LEAVE_SECONDS
        lock = os.path.join(self.places.supervisor_dir, "lock")
        while is_held(lock) and clock.monotonic() < end:
            waiting.look_again()
        processes.end(self.places, "supervisor")
        scratch.remove(self.places)

    def _held(self) -> RefusedError:
        return RefusedError(
            "plane-held",
            f"this plane is embedded in process {self.pid} and ends with it",
            hint="gpulayer ps",
        )


def _on_folder(places: Places) -> EmbeddedPlane:
    """Take the home, from the local plane if that has it."""
    from gpulayer.sdk.handover import take_seat

    seat, claim = take_seat(places, "embedded")
    try:
        plane = EmbeddedPlane(places, seat)
    except BaseException:
        if claim is not None:
            claim.give_up()
        raise
    if claim is not None:
        claim.took()
    return plane


def _nothing() -> None:
    """The plane is here."""


_open: set[EmbeddedClient] = set()


def _close_all() -> None:
    """The program ends without having left its planes."""
    for client in list(_open):
        client.close()


# Before the pools of concurrent.futures are shut down, which happens before `atexit`: the worker
# still has to tell the ends of the jobs that are cancelled now.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]
