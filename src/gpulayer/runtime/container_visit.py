"""A command inside the container of a running task: `PY container_visit.py FILE MARK TERM WORDS`.

    FILE    that of the task, which `container_shim` reads too
    MARK    NAME=VALUE: an entry of the environment by which the command's processes are known here
    TERM    variables that the visitor sets, in one word, a line each
    WORDS   of the command; none: the shell that the job's environment names, else /bin/sh

This is the visit's own process. The engine's client is its child and has the visitor's streams, so
not a byte goes through here. The command is the engine's child and would outlive its client, so
signals go to its group, found by the mark. Where this process ends by a signal or with `OURS`,
whoever holds the task's body ends all that carries the mark (`runtime.visits`).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import select
import sys
import time

if not __package__:  # run by its path
    sys.path.append(os.path.join(os.path.dirname(__file__), "..", ".."))

from gpulayer.runtime import container_shim as shim, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

BEGIN_SECONDS = 30.0
"""How long a container may take to begin: a task runs once its engine's client does."""
LOOK_SECONDS = 0.05
HANG_UP_SECONDS = 1.5
"""Less than a body leaves a visit whose visitor is gone."""
SHELL = ("/bin/sh", "-c", '[ -x "$SHELL" ] && exec "$SHELL"; exec /bin/sh')
KEYS = "ctrl-^,ctrl-@,ctrl-^,ctrl-@"
"""What leaves a command at its engine's client. It cannot be none, so it is what nobody types."""
_KILLED = 128 + int(signal.SIGKILL)


def main() -> NoReturn:
    file, mark, variables, *words = sys.argv[1:]
    plan = shim.read(file)
    woken = shim.awake()
    if not _wait(plan, woken):
        _say("the container has not begun")
        os._exit(shim.OURS)
    is_screen = os.isatty(0) and os.isatty(1)
    client = shim.begin(line(plan, mark, variables, words, is_screen), plan["environ"], is_screen)
    status, left = None, 0
    while status is None:
        select.select([woken], (), ())
        for number in os.read(woken, 512):
            if number in shim.TAKEN:
                leader = _pass_on(mark.encode(), number, client)
                left = leader if number == signal.SIGHUP else left
        pid, found = os.waitpid(client, os.WNOHANG)
        status = found if pid else None
    if os.WIFSIGNALED(status):
        _say("{} was ended by signal {}".format(plan["engine"], os.WTERMSIG(status)))
        _hang_up(left or _leader(mark.encode()))
        os._exit(shim.OURS)
    if left:  # with its terminal a client may end as if all were well
        os._exit(128 + signal.SIGHUP if _hang_up(left) else shim.OURS)
    code = os.WEXITSTATUS(status)
    if code == _KILLED and shim.first_process(plan) <= 0:
        shim.end_as(signal.SIGKILL)  # with its container
    os._exit(code)


def line(
    plan: dict[str, Any], mark: str, variables: str, words: list[str], is_screen: bool
) -> list[str]:
    """The client's words."""
    found = [plan["program"], "exec", "-i"]
    if is_screen:
        found += ["-t", "--detach-keys", KEYS]
    for entry in (mark, *variables.splitlines()):
        found += ["-e", entry]
    return [*found, plan["name"], *(words or SHELL)]


def _wait(plan: dict[str, Any], woken: int) -> bool:
    """For the container's first process. A signal meanwhile ends this one."""
    end = time.monotonic() + BEGIN_SECONDS
    while not shim.first_process(plan):
        if time.monotonic() > end:
            return False
        if select.select([woken], (), (), LOOK_SECONDS)[0]:
            for number in os.read(woken, 512):
                if number in shim.TAKEN:
                    shim.end_as(number)
    return True


def _pass_on(mark: bytes, signum: int, client: int) -> int:
    """To the command; its number here."""
    leader = _leader(mark)
    if not leader:  # it has not begun; should it still do so, it is ended by its mark
        shim.kill(client, signal.SIGKILL)
        shim.end_as(signum)
    for send in (os.killpg, os.kill):
        try:
            send(leader, signum)
            break
        except OSError:
            continue
    return leader


def _leader(mark: bytes) -> int:
    """The command itself, which leads a session of its own: of those, the first."""
    found = [pid for pid in processes.marked(mark) if _session(pid) == pid]
    return min(found, key=_begun, default=0)


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _begun(pid: int) -> int:
    """In ticks since the machine began (proc_pid_stat(5)); late where it is gone."""
    try:
        with open("/proc/{}/stat".format(pid), "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return sys.maxsize


def _hang_up(leader: int) -> bool:
    """The visitor or the client is gone. Whether the command is, too, after a while."""
    signum, end = int(signal.SIGHUP), time.monotonic() + HANG_UP_SECONDS
    while leader and _send(leader, signum):
        if time.monotonic() > end:
            return False
        signum = 0  # from now on: whether it is there
        time.sleep(LOOK_SECONDS)
    return True


def _send(pid: int, signum: int) -> bool:
    try:
        os.kill(pid, signum)
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    try:
        os.write(2, (text + "\n").encode())
    except OSError:
        pass  # nobody listens


if __name__ == "__main__":
    main()
