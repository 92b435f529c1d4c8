"""What a supervisor says to a template and to a child at its gate, and what it hears.

The other side is `zygote`, whose docstring is the protocol.
"""

from __future__ import annotations

import marshal
import os
import struct

from gpulayer.runtime import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from gpulayer.runtime import spawn

ANSWER_SECONDS = 1.0
"""How long the supervisor, which waits, lets a template take for one fork."""
ANSWER_BYTES = 64 << 10

_SIZE = struct.Struct(">I")


def open_gate(gate: socket.socket, launch: spawn.Launch, script: Any = None) -> bool:
    """False where not all of it could be said: then the child has run nothing. `script` is what a
    task says of one."""
    gate.settimeout(ANSWER_SECONDS)
    call: dict[str, Any] = {
        "argv": [launch.argv0, *launch.argv[1:]],
        "environ": _pairs(launch.environ),
    }
    if script is not None:
        call.update(path=launch.argv[0], ignored=launch.ignored, script=script)
    try:
        send(gate, call, [])
    except OSError:
        return False
    return True


def ask(sock: socket.socket, fds: list[int]) -> tuple[int, str]:
    """The child that a template forked for a call, or -1 and why there is none."""
    try:
        send(sock, {}, fds)
        word, text = receive(sock)
    except TimeoutError:
        return -1, "its warm process does not answer"
    except (OSError, EOFError):
        return -1, "its warm process was killed"
    if word == "pid" and text.isdigit() and _is_child(int(text)):
        return int(text), ""
    return -1, text if word == "stale" else "its warm process could not fork"


def _is_child(pid: int) -> bool:
    """Of this very process. A template has run what it imported, and may say anything."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False
    return pid > 1


def send(sock: socket.socket, message: dict[str, Any], fds: list[int]) -> None:
    data = marshal.dumps(message, 2)
    data = _SIZE.pack(len(data)) + data
    rest = data[frames.send_with_fds(sock, data, fds) :]
    if rest:  # nothing more to say is no reason to find that the other side has left
        sock.sendall(rest)


def receive(sock: socket.socket) -> tuple[str, str]:
    """A word and its text. Not trusted: the template has run what it imported."""
    size = _SIZE.unpack(_exactly(sock, _SIZE.size))[0]
    if size > ANSWER_BYTES:
        raise EOFError
    word, _, text = _exactly(sock, size).decode("utf-8", "replace").partition(" ")
    return word, text


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _pairs(block: list[bytes]) -> list[tuple[bytes, bytes]]:
    parts = (entry.partition(b"=") for entry in block)
    return [(name, value) for name, _, value in parts]
