"""The parent of whatever prepares an environment: nothing of it outlives this process.

    words(["uv", "pip", "install", ...])    the line by which an agent starts one

Its standard input is a pipe that the agent holds and never writes to: at its end (the agent died)
or at SIGTERM (it takes the build back) all that was begun is killed. So it is when the command ends
by itself, whatever it left behind; then this process ends as the command did.
"""

from __future__ import annotations

import os
import select
import signal
import sys

from gpulayer.runtime import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

CUT = 128 + signal.SIGKILL
"""How it ends where it was taken back first."""
NOT_FOUND = 127

_CODE = (
    "import sys; sys.path.insert(0, {root!r}); from gpulayer.runtime import builder; builder.main()"
)


def words(command: Sequence[str]) -> list[str]:
    """What to start for that command, as a leader of a session of its own."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, "-I", "-S", "-c", _CODE.format(root=root), *command]


def main() -> NoReturn:
    processes.adopt_orphans()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    for signum in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(signum, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    child = _begin(sys.argv[1:])
    code = None
    while code is None:
        ready, _, _ = select.select([0, woken], (), ())
        is_cut = 0 in ready and not os.read(0, 1)
        if woken in ready:
            is_cut = signal.SIGTERM in os.read(woken, 512) or is_cut
            code = _ended(child)
        if is_cut and code is None:
            code = CUT
    _clear(child)
    os._exit(code)


def _begin(command: Sequence[str]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(command[0], list(command))
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(NOT_FOUND)


def _ended(child: int) -> int | None:
    """Its exit code by the shell's convention, once it has one. Orphans are reaped as well."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            over = os.WIFSIGNALED(status)
            code = 128 + os.WTERMSIG(status) if over else os.WEXITSTATUS(status)


def _clear(child: int) -> None:
    """Kill until no child is left, living or dead."""
    while True:
        try:
            os.killpg(child, signal.SIGKILL)
        except OSError:
            pass  # its group is empty
        processes.kill_descendants(os.getpid())
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
