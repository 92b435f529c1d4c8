"""Whether the nodes of a gang reach each other, tried before any rank begins. Part of `node_shim`.

The standard library alone, any Python from 3.8 up. Each node keeps a door: a port on which it
listens at the address by which it came to node 0. Node 0 tells all doors to all; each tries every
other's and says which it could not open. gloo and NCCL connect in the same way, at ports of their
own, and would wait for half an hour.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Doors = dict[int, tuple[str, int]]

TRY_SECONDS = 5.0
_WORD_SECONDS = 5.0
"""On top, for the answer to come."""
_MOST_BYTES = 1 << 16


def door(address: str, nodes: int) -> socket.socket:
    """The kernel opens to whoever knocks; nobody needs to be asked."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    made.bind((address, 0))
    made.listen(nodes)
    return made


def closed(doors: Doors, seconds: float = TRY_SECONDS) -> dict[int, str]:
    """Those of `doors` that could not be opened in time, and why."""
    found: dict[int, str] = {}
    waiting: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    for node, (address, port) in doors.items():
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        sock.setblocking(False)
        code = sock.connect_ex((address, port))
        if code == errno.EINPROGRESS:
            waiting[sock.fileno()] = (node, sock)
            poll.register(sock, select.POLLOUT)
            continue
        if code:
            found[node] = os.strerror(code).lower()
        sock.close()
    end = time.monotonic() + seconds
    while waiting:
        left = end - time.monotonic()
        for fd, _ in poll.poll(max(0.0, left) * 1000):
            node, sock = waiting.pop(fd)
            poll.unregister(fd)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                found[node] = os.strerror(code).lower()
            sock.close()
        if left <= 0:
            break
    for node, sock in waiting.values():
        found[node] = "no answer within {:g} s".format(seconds)
        sock.close()
    return found


def introduce(plan: dict[str, Any], sock: socket.socket, wait: float) -> str:
    """On any other node, which has come to node 0: its last word, `go`, `no ...` or nothing.
    `probe` of the plan: node 0 knows of doors. `wait`: seconds that a word may take."""
    hello = "{} {}".format(plan["token"], plan["node"])
    lines = sock.makefile(encoding="utf-8")
    sock.settimeout(wait)
    if not plan.get("probe"):
        sock.sendall((hello + "\n").encode("ascii"))
        return lines.readline().strip()
    with door(sock.getsockname()[0], plan["nodes"]) as kept:
        sock.sendall("{} {}\n".format(hello, kept.getsockname()[1]).encode("ascii"))
        word = lines.readline().strip()
        if word.startswith("reach "):
            sock.sendall(_answer(word[6:], plan["node"]).encode("ascii"))
            word = lines.readline().strip()
        return word


def _answer(word: str, node: int) -> str:
    """What a node says to node 0's word of all doors."""
    doors = {int(other): (str(at[0]), int(at[1])) for other, at in json.loads(word).items()}
    doors.pop(node, None)
    return json.dumps(closed(doors)) + "\n"


def missing(there: dict[int, socket.socket], doors: Doors, names: list[str]) -> str:
    """On node 0: have all try all; the pairs that failed, in words. `there`: the ways to those who
    have a door."""
    word = "reach {}\n".format(json.dumps(doors)).encode("ascii")
    for sock in there.values():
        try:
            sock.settimeout(TRY_SECONDS)
            sock.sendall(word)
        except OSError:
            pass  # it has gone; its own end is told by its own worker
    failed: list[tuple[int, int, str]] = [(0, node, why) for node, why in closed(doors).items()]
    end = time.monotonic() + TRY_SECONDS + _WORD_SECONDS
    for node, sock in there.items():
        told = _line(sock, end)
        failed += [(node, int(other), str(why)) for other, why in told.items()]
    return "; ".join(
        "{} (node {}) cannot reach {} (node {}) at {}: {}".format(
            names[node], node, names[other], other, _shown(doors[other]), why
        )
        for node, other, why in sorted(failed)
        if other in doors
    )


def _line(sock: socket.socket, end: float) -> dict[str, Any]:
    """A node's answer; empty where none comes: it has gone, and that is told elsewhere."""
    text = b""
    try:
        while not text.endswith(b"\n") and len(text) < _MOST_BYTES:
            sock.settimeout(max(0.01, end - time.monotonic()))
            data = sock.recv(4096)
            if not data:
                break
            text += data
        told = json.loads(text)
        return told if isinstance(told, dict) else {}
    except (OSError, ValueError):
        return {}


def _shown(at: tuple[str, int]) -> str:
    address, port = at
    return "[{}]:{}".format(address, port) if ":" in address else "{}:{}".format(address, port)
