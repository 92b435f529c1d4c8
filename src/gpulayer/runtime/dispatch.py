"""What each request does. One method per word of the protocol in `gpulayer.runtime.supervisor`,
which makes it longer than others: the words stand together, as they do there."""

from __future__ import annotations

import os
import signal

from gpulayer.runtime import frames, ladder, shapes, world
from gpulayer.runtime.attaches import Attach
from gpulayer.runtime.envelopes import with_folder
from gpulayer.runtime.journal import is_name
from gpulayer.runtime.leases import Leases
from gpulayer.runtime.peers import Peer
from gpulayer.runtime.roster import refusal
from gpulayer.runtime.spawn import FULL, SpawnError
from gpulayer.runtime.tasks import Task
from gpulayer.runtime.visitors import Visitors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.envelopes import Envelopes
    from gpulayer.runtime.loop import Loop
    from gpulayer.runtime.roster import Roster

AGENT = "agent"


class RequestError(Exception):
    """Answered to the peer as it is."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


REATTACH_SECONDS = 10.0
"""After its start, how long a supervisor holds a start whose client may be coming back to it."""


class Dispatch:
    """The peers of one supervisor. `changed` is called when one comes or goes."""

    def __init__(
        self,
        loop: Loop,
        roster: Roster,
        envelopes: Envelopes,
        *,
        about: dict[str, Any],
        clock: Callable[[], float],
        reattach_seconds: float,
        changed: Callable[[], object],
        leave: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._roster = roster
        self._envelopes = envelopes
        self._about = about
        self._clock = clock
        self._changed = changed
        self._leave_home = leave
        self._leases = Leases(loop, self._lease_over)
        self._attaches: dict[Peer, Attach] = {}
        self._visitors = Visitors()
        self._attach_prefix = f"{os.urandom(6).hex()}."
        """Tells the attaches of this supervisor from those of an earlier one."""
        self._next_attach = 0
        self._early: list[tuple[Peer, dict[str, Any]]] = []
        """Starts for clients that are on their way here from a supervisor that died."""
        self._is_young = True
        self._loop.after(reattach_seconds, self._grow_up)
        self.peers: set[Peer] = set()

    def accept(self, sock: socket.socket) -> None:
        self.peers.add(Peer(self._loop, sock, self._received, self._closed))
        self._changed()

    def _closed(self, peer: Peer) -> None:
        self.peers.discard(peer)
        attach = self._attaches.pop(peer, None)
        if attach is not None:
            attach.close()
        self._visitors.left(peer)
        self._envelopes.giver_left(peer)
        self._changed()

    def _received(self, peer: Peer, kind: str, payload: Any, fds: list[int]) -> None:
        if kind == frames.INPUT:
            attach = self._attaches.get(peer)
            if attach is not None and attach.task is not None:
                attach.task.type(payload)
            return
        if kind != frames.JSON:
            peer.close()
            return
        names = payload.get("fds") or ()
        given = {str(name): fd for name, fd in zip(names, fds)}  # noqa: B905  as many, by the decoder
        try:
            self._answer(peer, payload, given)
        finally:
            for fd in given.values():
                os.close(fd)

    def _answer(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> None:
        """Runs the request. What it keeps of `fds` it takes out."""
        seq = request.get("seq")
        try:
            wrong = shapes.fault_of(request)
            if wrong is not None:
                raise RequestError("bad-request", f"{wrong} is missing or not what it should be")
            call = _WORDS.get(request.get("op", ""))
            if call is None:
                raise RequestError("unknown-op", f"no such request: {request.get('op')!r}")
            reply = call(self, peer, request, fds)
        except RequestError as error:
            reply = {"error": {"code": error.code, "message": str(error)}}
        except SpawnError as error:
            reply = {"error": {"code": error.code, "message": str(error)}}
        except (KeyError, TypeError, ValueError) as error:
            text = f"the request is malformed: {type(error).__name__}: {error}"
            reply = {"error": {"code": "bad-request", "message": text}}
        except OSError as error:
            code = "disk-full" if error.errno in FULL else "failed"
            reply = {"error": {"code": code, "message": str(error)}}
        except Exception as error:
            self._reply(peer, seq, {"error": {"code": "failed", "message": repr(error)}})
            raise  # a fault of our own: it goes to the log
        if reply is not None:
            self._reply(peer, seq, reply)

    def _reply(self, peer: Peer, seq: int | None, reply: dict[str, Any]) -> None:
        if seq is not None:
            peer.send_json({"seq": seq, **({} if "error" in reply else {"ok": True}), **reply})

    def _hello(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        if request.get("wire") != frames.WIRE:
            raise RequestError("wire", f"this supervisor speaks version {frames.WIRE}")
        if request.get("role") == AGENT:
            for other in [p for p in self.peers if p.role == AGENT and p is not peer]:
                other.close()
        peer.role = request.get("role", "client")
        return {**self._about, "wire": frames.WIRE, "pid": os.getpid(), "world": world.describe()}

    def _envelope(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        known = request.get("envelope_id")
        if known is not None:
            if not self._envelopes.put_again(known, peer):
                raise RequestError("envelope-lost", "no such envelope is here")
            return {"envelope_id": known}
        envelope = with_folder(request["envelope"], fds)
        keep = bool(request.get("keep"))
        envelope_id = self._envelopes.put(envelope, keep=keep, giver=peer)
        self._loop.after(0, self._start_early)
        return {"envelope_id": envelope_id}

    def _attach(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        if peer in self._attaches:
            raise RequestError("bad-request", "this connection has an attach already")
        if request.get("mode") not in ("plain", "terminal"):
            raise RequestError("bad-request", "mode is plain or terminal")
        envelope = with_folder(request["envelope"], fds)
        envelope_id = self._envelopes.put(envelope, keep=False, giver=peer)
        self._next_attach += 1
        attach_id = request.get("attach_id") or f"{self._attach_prefix}{self._next_attach}"
        if any(attach.attach_id == attach_id for attach in self._attaches.values()):
            raise RequestError("bad-request", "that attach is somebody's")
        shape = {
            key: request.get(key) for key in ("streams", "merged", "mode", "terminal", "labels")
        }
        attach = Attach(attach_id, peer, shape, envelope_id, fds.pop("stdin", -1))
        self._attaches[peer] = attach
        self._loop.after(0, self._start_early)
        return {"attach_id": attach_id, "envelope_id": envelope_id}

    def _start(
        self, peer: Peer, request: dict[str, Any], fds: dict[str, int]
    ) -> dict[str, Any] | None:
        wanted = request["task"]
        task_id = wanted["task_id"]
        if not is_name(task_id):
            raise RequestError("bad-request", "no such name for a task")
        if (known := self._roster.get(task_id)) is not None:
            self._reply(peer, request.get("seq"), {"pid": known.pid})
            self._follow(known, peer, request)
            return None
        attach = self._find_attach(wanted.get("attach_id"))
        if attach is None and self._is_early(wanted):
            self._early.append((peer, request))
            return None
        if not self._leases.allow(request.get("until")):
            self._follow(None, peer, request)
            raise RequestError("lease-over", "by now the plane may have given it out again")
        try:
            task = self._roster.begin(wanted, self._envelope_of(wanted), attach)
        except SpawnError as error:
            refused = refusal(error, self._clock())
            if attach is not None:
                attach.event({"event": "exited", "task_id": task_id, "exit": refused["exit"]})
            self._reply(peer, request.get("seq"), {"error": refused})
            self._follow(None, peer, request)
            return None

        def answer() -> None:
            refused = task.refusal
            reply = {"ok": True, "pid": task.pid} if refused is None else {"error": refused}
            peer.send_json({"seq": request.get("seq"), **reply, **task.told})

        task.waiting.append(answer)
        self._follow(task, peer, request)
        return None

    def _is_early(self, wanted: dict[str, Any]) -> bool:
        """Its client knew an earlier supervisor and may be on its way here, to watch the job or
        bring its world again; that may be here without it: terminals that are alike share one."""
        if not self._is_young:
            return False
        attach_id, envelope_id = wanted.get("attach_id"), wanted.get("envelope_id")
        if attach_id is not None and not attach_id.startswith(self._attach_prefix):
            return True
        return envelope_id is not None and self._envelopes.get(envelope_id) is None

    def _start_early(self) -> None:
        early, self._early = self._early, []
        for peer, request in early:
            self._start(peer, request, {})

    def _grow_up(self) -> None:
        self._is_young = False
        self._start_early()

    def _follow(self, task: Any, peer: Peer, request: dict[str, Any]) -> None:
        """The `tail` inside a `start`: whoever starts a task follows it, with one message less."""
        tail = request.get("tail")
        if tail is None:
            return
        if task is not None:
            task.tails.ask(peer, {"offset": 0, **tail})
        else:
            error = {"code": "no-such-task", "message": "it was not started"}
            self._reply(peer, tail.get("seq"), {"error": error})

    def _cancel(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        if request["mode"] not in ladder.MODES:
            raise RequestError("bad-request", "mode is int, term or kill")
        grace = float(request.get("grace_seconds") or 0)
        self._task(request).cancel(request["mode"], grace, request.get("reason"))
        return {}

    def _lease(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        if peer.role != AGENT:
            raise RequestError("bad-request", "only the agent may say that")
        self._leases.renew(request["until"])
        return {}

    def _lease_over(self, task_id: str) -> None:
        task = self._roster.get(task_id)
        if task is not None:
            task.cancel("kill", 0, "worker_lost")

    def _tail(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> None:
        self._task(request).tails.ask(peer, request)

    def _list(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        return {"tasks": self._roster.describe()}

    def _forget(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        if not self._roster.forget(request["task_id"]):
            raise RequestError("running", "the task still runs")
        return {}

    def _environ(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        """Some variables of an envelope, for the agent: values of secrets that a job names."""
        if peer.role != AGENT:
            raise RequestError("bad-request", "only the agent may ask for that")
        entries = self._envelope_of(request).get("environ") or []
        known = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        return {"values": {name: known.get(name) for name in request["names"]}}

    def _redact(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        task = self._task(request)
        if not isinstance(task, Task):
            raise RequestError("no-such-task", "the values of its secrets are not known any more")
        return {"texts": task.redact(request["texts"])}

    def _drop(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        for envelope_id in request["envelope_ids"]:
            self._envelopes.drop(envelope_id)
        return {}

    def _keep(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        self._envelopes.keep_only(request["envelope_ids"])
        return {}

    def _leave(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        if self._roster.running:
            raise RequestError("running", "tasks still run")
        self._envelopes.keep_only(())
        self._leave_home()
        return {}

    def _signal(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        task = self._attach_of(peer).task
        if task is not None:
            signum = int(request["signum"])
            if signum not in signal.valid_signals():
                raise RequestError("bad-request", f"no such signal: {signum}")
            task.signal(signum, request.get("target") or "group")
        return {}

    def _winsize(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        rows, cols = int(request["rows"]), int(request["cols"])
        attach = self._attach_of(peer)
        attach.request["terminal"] = {
            **(attach.request.get("terminal") or {}),
            "rows": rows,
            "cols": cols,
        }
        if attach.task is not None:
            attach.task.resize(rows, cols)
        return {}

    def _reader_left(
        self, peer: Peer, request: dict[str, Any], fds: dict[str, int]
    ) -> dict[str, Any]:
        task = self._attach_of(peer).task
        if task is not None:
            task.reader_left(int(request["stream"]))
        return {}

    def _kill(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        task = self._attach_of(peer).task
        if task is not None:
            task.cancel("kill", 0)
        return {}

    def _visit(self, peer: Peer, request: dict[str, Any], fds: dict[str, int]) -> dict[str, Any]:
        return self._visitors.begin(peer, self._task(request), request, fds)

    def _signal_visit(
        self, peer: Peer, request: dict[str, Any], fds: dict[str, int]
    ) -> dict[str, Any]:
        self._visitors.signal(peer, int(request["signum"]))
        return {}

    def _task(self, request: dict[str, Any]) -> Any:
        task = self._roster.get(request["task_id"])
        if task is None:
            raise RequestError("no-such-task", f"no such task here: {request['task_id']}")
        return task

    def _attach_of(self, peer: Peer) -> Attach:
        attach = self._attaches.get(peer)
        if attach is None:
            raise RequestError("bad-request", "this connection has no attach")
        return attach

    def _find_attach(self, attach_id: str | None) -> Attach | None:
        """None for a client that has left: its job runs with nobody watching."""
        found = [a for a in self._attaches.values() if a.attach_id == attach_id and not a.task]
        return found[0] if found else None

    def _envelope_of(self, task: dict[str, Any]) -> dict[str, Any]:
        envelope_id = task.get("envelope_id")
        if envelope_id is None:
            environ = task.get("environ") or {}
            return {"environ": [f"{name}={value}" for name, value in environ.items()]}
        envelope = self._envelopes.get(envelope_id)
        if envelope is None:
            text = "the environment and folder of the terminal it was sent from are lost"
            raise SpawnError("envelope-lost", text)
        return envelope


_WORDS: dict[str, Callable[[Dispatch, Peer, dict[str, Any], dict[str, int]], Any]] = {
    "hello": Dispatch._hello,
    "envelope": Dispatch._envelope,
    "attach": Dispatch._attach,
    "start": Dispatch._start,
    "cancel": Dispatch._cancel,
    "lease": Dispatch._lease,
    "tail": Dispatch._tail,
    "list": Dispatch._list,
    "forget": Dispatch._forget,
    "environ": Dispatch._environ,
    "redact": Dispatch._redact,
    "drop": Dispatch._drop,
    "keep": Dispatch._keep,
    "quit": Dispatch._leave,
    "signal": Dispatch._signal,
    "winsize": Dispatch._winsize,
    "closed": Dispatch._reader_left,
    "kill": Dispatch._kill,
    "visit": Dispatch._visit,
    "signal_visit": Dispatch._signal_visit,
}
