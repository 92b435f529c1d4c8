"""Starts one rank and says how it ended: `PY rank_shim.py FOLDER`, by torchrun for each rank, or
forked by `rank_launcher`.

It is run by its path, with the standard library and its neighbour `rank_start` alone, on any Python
from 3.8 up. torchrun lets all ranks share one output and tells exit codes in prose; so this process
gives its rank a pipe of its own, waits for it, and writes down what wait(2) said before it ends in
the same way.

    FOLDER/rank.json           {argv, results, grace}
    FOLDER/<local rank>.out    named pipes that the supervisor reads; also .err
    FOLDER/<rank>.end          {began}, later {began, at, code, signal, asked}; code as a shell
                               tells it; `asked`: whether it was told to end before it did
    FOLDER/<rank>.result       with `results`: the last word of argv, for a function's runner

The rank has a process group of its own, so that a signal to this one's group reaches it once, by
us. It dies with us (prctl(2) PR_SET_PDEATHSIG, where there is one).
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
PASSED_ON = (
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_KILLED = {"at": 0.0, "code": 137, "signal": 9, "asked": False}


def lead(folder: str) -> NoReturn:
    """Lead the rank that the environment names; ends as it does."""
    rank = int(os.environ["RANK"])
    with open(os.path.join(folder, "rank.json"), encoding="ascii") as file:
        plan = json.load(file)
    for number, name in ((1, "out"), (2, "err")):
        pipe = os.path.join(folder, "{}.{}".format(os.environ["LOCAL_RANK"], name))
        descriptor = os.open(pipe, os.O_WRONLY)
        os.dup2(descriptor, number)
        os.close(descriptor)
    argv = list(plan["argv"])
    if plan["results"]:
        argv.append(os.path.join(folder, "{}.result".format(rank)))
    record = os.path.join(folder, "{}.end".format(rank))
    began = time.time()
    write(record, {"began": began})
    status, asked = _run(argv, _environ(folder), plan["grace"])
    signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = 128 + signum if signum else os.WEXITSTATUS(status)
    at = time.time() if code == 0 else _failed_at(os.path.join(folder, str(rank)))
    write(record, {"began": began, "at": at, "code": code, "signal": signum, "asked": asked})
    end_as(code, signum)


def end_as(code: int, signum: int | None) -> NoReturn:
    """End as somebody else did."""
    if signum:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signum, signal.SIG_DFL) if signum != signal.SIGKILL else None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signum])
        os.kill(os.getpid(), signum)
    os._exit(code)


def ends(folder: str) -> dict[int, dict[str, Any]]:
    """What the ranks of a node have written down, whole. One that began and has no end was killed
    together with its shim, before the others heard of it."""
    found: dict[int, dict[str, Any]] = {}
    for name in os.listdir(folder):
        stem, _, kind = name.rpartition(".")
        if kind == "end" and stem.isdigit():
            with open(os.path.join(folder, name), encoding="ascii") as file:
                found[int(stem)] = {**_KILLED, **json.load(file)}
    return found


def first_failure(found: dict[int, dict[str, Any]]) -> int | None:
    """The rank that failed first."""
    failed = [(end["at"], rank) for rank, end in found.items() if end["code"] != 0]
    return min(failed)[1] if failed else None


def write(path: str, value: Any) -> None:
    """All or nothing."""
    draft = path + ".part"
    with open(draft, "w", encoding="ascii") as file:
        json.dump(value, file)
    os.replace(draft, path)


def _failed_at(stem: str) -> float:
    """When it raised, where it said so: taking torch apart takes it longer than its neighbours need
    to notice and to end."""
    at = time.time()
    for kind in ("raised", "result"):
        try:
            at = min(at, os.stat("{}.{}".format(stem, kind)).st_mtime)
        except OSError:
            pass  # it said nothing
    return at


def _environ(folder: str) -> dict[str, str]:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import rank_start  # type: ignore[import-not-found]  # beside this file, wherever that is

    made: dict[str, str] = rank_start.environ(folder, dict(os.environ))
    return made


def _run(argv: list[str], environ: dict[str, str], grace: float) -> tuple[int, bool]:
    """What wait(2) said, and whether it had been told to end by then."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        prctl = None  # not Linux
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # none is lost before the rank is there
    pid = os.fork()
    if pid == 0:
        _become(argv, environ, parent, prctl)

    asked = []

    def pass_on(signum: int, _: Any) -> None:
        _send(pid, signum)
        if signum in (signal.SIGTERM, signal.SIGINT):
            asked.append(signum)
            signal.setitimer(signal.ITIMER_REAL, grace)

    for signum in PASSED_ON:
        signal.signal(signum, pass_on)
    signal.signal(signal.SIGALRM, lambda *_: _send(pid, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    status = os.waitpid(pid, 0)[1]
    return status, bool(asked)


def _become(argv: list[str], environ: dict[str, str], parent: int, prctl: Any) -> NoReturn:
    code = _NOT_EXECUTABLE
    try:
        os.setpgid(0, 0)
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == parent:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
            for signum in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(signum, signal.SIG_DFL)  # Python ignores them, and exec keeps that
            os.execvpe(argv[0], argv, environ)
    except FileNotFoundError as error:
        code = _NOT_FOUND
        os.write(2, "{}: {}\n".format(argv[0], error.strerror).encode())
    except OSError as error:
        os.write(2, "{}: {}\n".format(argv[0], error.strerror).encode())
    finally:
        os._exit(code)


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    lead(sys.argv[1])
