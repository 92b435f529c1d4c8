"""Leads one node of a distributed job: `PY node_shim.py FOLDER`, the task's own process.

It is run by its path, with the standard library and its neighbours `rank_shim`, `rank_launcher` and
`reach` alone, on any Python from 3.8 up. It waits until all nodes are there, starts the launcher
that the plan names, or the ranks itself, and ends as the rank that failed first did; a launcher
itself would end with 1.

    FOLDER/node.json   {launcher (words, and those of a rank) | direct (variables of each rank),
                       nodes, node, address, port, token, names,
                       join_seconds, scrub, defaults}: see `worker.steps.ranks`
    FOLDER/node.end    {slug, message}: why no rank began
    FOLDER/launcher    what the launcher printed; shown where no rank's end explains it

The nodes meet at the address and port that the launcher's own store will have: node 0 listens
there, the others say who they are, and all go on once all have. So a join that fails names who is
missing, and an address that cannot be reached is found before torch is imported. With `probe` in
the plan every node tries every other one, too: see `reach`. Node 0 keeps the
port bound while the launcher starts, and takes another one if it is alone and lost it.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from gpulayer.runtime import rank_launcher, rank_shim, reach
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import rank_launcher  # beside this file, wherever that is
    import rank_shim
    import reach

_HELLO_BYTES = 256
_TRIES = 5
"""Ports that a node alone tries."""
_KNOCK_SECONDS = 0.2
_WORD_SECONDS = 15.0
"""What node 0 gets, past the time itself, to say that the time is over."""
_SHOWN_BYTES = 1 << 20
_OURS = 125


class JoinError(Exception):
    """The nodes did not meet. `slug` is one of `gpulayer.slugs`."""

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug


class Interrupted(Exception):
    """A signal came while it waited for other nodes."""


class _Signals:
    """They go to the whole group, the launcher in it, whose end is waited for. Before there is
    one, they end the waiting for others."""

    def __init__(self) -> None:
        self.noted: list[int] = []
        self.ends_waiting = True
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(signum, self._note)

    def _note(self, signum: int, _: Any) -> None:
        self.noted.append(signum)
        if self.ends_waiting:
            raise Interrupted


def main() -> NoReturn:
    folder = sys.argv[1]
    with open(os.path.join(folder, "node.json"), encoding="ascii") as file:
        plan = json.load(file)
    signals = _Signals()
    try:
        status = _lead(plan, folder, signals)
    except JoinError as error:
        _give_up(folder, error)
    except Interrupted:
        status = 0
    if signals.noted:
        os._exit(128 + signals.noted[0])
    ends = rank_shim.ends(folder)
    first = rank_shim.first_failure(ends) if status >= 0 else None
    if first is not None:
        rank_shim.end_as(ends[first]["code"], ends[first]["signal"])
    if status < 0:
        rank_shim.end_as(128 - status, -status)
    os._exit(status)


def _lead(plan: dict[str, Any], folder: str, signals: _Signals) -> int:
    """Exit status of the launcher, negative for a signal."""
    alone = plan["nodes"] == 1
    for attempt in range(_TRIES):
        port, held = _hold(plan["address"], plan["port"]) if plan["node"] == 0 else (0, None)
        port = port or plan["port"]
        if not alone:
            meet(plan, held)
        signals.ends_waiting = False
        status = _run(plan, port, folder)
        if held is not None:
            held.close()
        if (
            status == 0
            or signals.noted
            or rank_shim.ends(folder)
            or not _is_taken(plan["address"], port)
        ):
            return status
        taken = "port {} was taken by another process before the launcher could listen".format(port)
        if not alone or plan["port"] or attempt == _TRIES - 1:
            raise JoinError("port-taken", taken)
        sys.stderr.write(taken + "; it starts again with another one\n")
    raise AssertionError


# --- meeting --------------------------------------------------------------------------------


def meet(plan: dict[str, Any], held: socket.socket | None) -> None:
    """Return once all nodes are there. JoinError: they are not, in time."""
    end = time.monotonic() + plan["join_seconds"]
    if plan["node"] == 0:
        assert held is not None
        _gather(plan, held, end)
    else:
        _knock(plan, end)


def _gather(plan: dict[str, Any], held: socket.socket, end: float) -> None:
    """A second socket listens, so that `held` keeps the port when that one has closed."""
    with _bound(plan["address"], held.getsockname()[1]) as listener:
        listener.listen(plan["nodes"])
        listener.setblocking(False)
        there: dict[int, socket.socket] = {}
        doors: dict[int, tuple[str, int]] = {}
        talking: dict[socket.socket, bytes] = {}
        while len(there) < plan["nodes"] - 1:
            left = end - time.monotonic()
            if left <= 0:
                missing = sorted(set(range(1, plan["nodes"])) - set(there))
                names = ", ".join("{} (node {})".format(plan["names"][n], n) for n in missing)
                text = "{} did not join within {:g} s".format(names, plan["join_seconds"])
                _answer(there, "no " + text)
                raise JoinError("not-joined", text)
            ready = select.select([listener, *talking, *there.values()], [], [], min(left, 1.0))[0]
            for sock in ready:
                if sock is listener:
                    talking[listener.accept()[0]] = b""
                elif sock in talking:
                    _listen_to(sock, talking, there, doors, plan)
                else:  # it spoke or left before its time: it will come again
                    there = {node: other for node, other in there.items() if other is not sock}
                    sock.close()
        asked = {node: sock for node, sock in there.items() if node in doors}
        apart = reach.missing(asked, doors, plan["names"]) if asked else ""
        _answer(there, "no " + apart if apart else "go")
        if apart:
            raise JoinError("not-joined", apart)


def _answer(there: dict[int, socket.socket], word: str) -> None:
    for sock in there.values():
        try:
            sock.sendall(word.encode("utf-8") + b"\n")
        except OSError:
            pass  # it has gone; its own end is told by its own worker
        sock.close()


def _listen_to(
    sock: socket.socket,
    talking: dict[socket.socket, bytes],
    there: dict[int, socket.socket],
    doors: dict[int, tuple[str, int]],
    plan: dict[str, Any],
) -> None:
    """A stranger, or one of another attempt, is sent away; a node that comes twice counts once."""
    try:
        data = sock.recv(_HELLO_BYTES)
    except OSError:
        data = b""
    text = talking.pop(sock) + data
    if not data or len(text) > _HELLO_BYTES:
        sock.close()
    elif not text.endswith(b"\n"):
        talking[sock] = text
    else:
        token, _, rest = text.decode("ascii", "replace").strip().partition(" ")
        number, _, door = rest.partition(" ")
        node = int(number) if number.isdigit() else 0
        if not hmac.compare_digest(token, plan["token"]) or not 0 < node < plan["nodes"]:
            sock.close()
            return
        before = there.pop(node, None)
        if before is not None:
            before.close()
        there[node] = sock
        doors.pop(node, None)
        if door.isdigit():
            doors[node] = (sock.getpeername()[0], int(door))


def _knock(plan: dict[str, Any], end: float) -> None:
    why = "no answer"
    while True:
        left = end - time.monotonic()
        if left <= 0:
            where = "{} (node 0) at {} port {}".format(
                plan["names"][0], plan["address"], plan["port"]
            )
            raise JoinError(
                "not-joined",
                "{} (node {}) could not join {} within {:g} s: {}".format(
                    plan["names"][plan["node"]], plan["node"], where, plan["join_seconds"], why
                ),
            )
        try:
            with socket.create_connection((plan["address"], plan["port"]), min(left, 10)) as sock:
                wait = max(0.1, end - time.monotonic()) + _WORD_SECONDS
                word = reach.introduce(plan, sock, wait)
            if word == "go":
                return
            if word.startswith("no "):
                raise JoinError("not-joined", word[3:])
            why = "the connection ended"
        except OSError as error:
            why = (error.strerror or str(error)).lower()
        select.select([], [], [], _KNOCK_SECONDS)  # it may not listen yet


# --- the port -------------------------------------------------------------------------------


def _hold(address: str, port: int) -> tuple[int, socket.socket]:
    """A port, bound and not listening: the kernel gives it to nobody who asks for any, while the
    launcher, which sets SO_REUSEADDR as all servers do, can listen on it (ip(7), bind(2))."""
    try:
        held = _bound(address, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            text = "port {} is taken by another process".format(port)
        else:
            text = "{} port {} cannot be used: {}".format(address, port, error.strerror)
        raise JoinError("port-taken", text) from error
    return held.getsockname()[1], held


def _bound(address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _is_taken(address: str, port: int) -> bool:
    """Whether somebody listens there now."""
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


# --- the launcher ---------------------------------------------------------------------------


def _run(plan: dict[str, Any], port: int, folder: str) -> int:
    environ = _environment(plan)
    if plan.get("direct"):
        return rank_launcher.run(plan["direct"], folder, {**environ, "MASTER_PORT": str(port)})
    words = [word.format(port=port) for word in plan["launcher"]]
    if "LOGLEVEL" in environ:  # somebody wants to see what it says
        return subprocess.Popen(words, env=environ).wait()
    with open(os.path.join(folder, "launcher"), "w+b") as said:
        status = subprocess.Popen(words, env=environ, stderr=said).wait()
        if status and not rank_shim.ends(folder):
            said.seek(0)
            sys.stderr.buffer.write(said.read(_SHOWN_BYTES))
            sys.stderr.flush()
    return status


def _environment(plan: dict[str, Any]) -> dict[str, str]:
    names, prefixes = set(plan["scrub"]["names"]), tuple(plan["scrub"]["prefixes"])
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in names and not name.startswith(prefixes)
    }
    return {**plan["defaults"], **kept}


def _give_up(folder: str, error: JoinError) -> NoReturn:
    sys.stderr.write("gpulayer: {}\n".format(error))
    rank_shim.write(os.path.join(folder, "node.end"), {"slug": error.slug, "message": str(error)})
    os._exit(_OURS)


if __name__ == "__main__":
    main()
