"""Runs a task's container and ends as its command did: `PY container_shim.py FILE`.

One file (it is run by its path), the standard library alone. It is the task's own process: the
engine's client is its child and has the task's standard streams, so not a byte goes through here.

    FILE        {engine, program, environ, names, options, image, command, name, ender, pidfile}, in
                marshal's form, since the same Python wrote it: see `worker.images.container`
    FILE.end    {slug, message} as JSON: the engine could not run it; the code is not the command's

Signals go to the group of the container's first process, as they would go to a command's: what
that one does not handle ends it, though the kernel spares the first process of a container. By the
end of this process the container is gone, unless it was killed itself or ends with `OURS`: then
the supervisor sees to it (`runtime.outside`). What is imported is what a short job waits for, so
there is no `json` and no `signal`, but what the latter is made of.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

OURS, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
          signal.SIGUSR2)  # fmt: skip
_ENGINE_SECONDS = 20.0
_CLASHING = ("LD_", "DOCKER_", "CONTAINER_", "CONTAINERS_", "XDG_")
_RUNTIME = frozenset("GODEBUG GOGC GOMAXPROCS GOMEMLIMIT GOTRACEBACK".split())


def main() -> NoReturn:
    file = sys.argv[1]
    plan = read(file)
    woken = awake()
    is_screen = os.isatty(0) and os.isatty(1)
    words, environ = line(plan, dict(os.environ), is_screen)
    began = time.time()
    os.chdir(os.path.dirname(file))  # Podman's monitor leaves an `oom` where it was begun
    client = begin(words, environ, is_screen)
    ended_by = 0
    status = None
    while status is None:
        select.select([woken], (), ())
        for number in os.read(woken, 512):
            if number in TAKEN and not ended_by:
                ended_by = _pass_on(plan, number, client)
        pid, found = os.waitpid(client, os.WNOHANG)
        status = found if pid else None
    _end(plan, file, status, ended_by, began)


def read(file: str) -> dict[str, Any]:
    with open(file, "rb") as data:
        plan: dict[str, Any] = marshal.load(data)  # noqa: S302
    return plan


def awake() -> int:
    """Where the numbers of signals arrive from now on."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    for signum in (*TAKEN, signal.SIGCHLD):
        signal.signal(signum, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    return woken


def line(
    plan: dict[str, Any], given: dict[str, str], is_screen: bool
) -> tuple[list[str], dict[str, str]]:
    """The client's words and environment. The job's variables are named in the one and have their
    values in the other, so that none is seen in a list of processes. Those that would mean
    something to the client itself are in a file of memory alone, which knows no line breaks."""
    environ = dict(plan["environ"])
    words = [plan["program"], "run", *plan["options"], "-i"]
    if is_screen:
        words.append("-t")
    lines = []
    for name in plan["names"]:
        if name not in given:
            continue
        text = "{}={}".format(name, given[name])
        if not clashes(name, plan["environ"]):
            words += ["-e", name]
            environ[name] = given[name]
        elif "\n" in text:
            words += ["-e", text]
        else:
            lines.append(text + "\n")
    if lines:
        memory = os.memfd_create("variables", 0)
        os.write(memory, os.fsencode("".join(lines)))
        os.lseek(memory, 0, os.SEEK_SET)
        words += ["--env-file", "/proc/self/fd/{}".format(memory)]
    return [*words, plan["image"], *plan["command"]], environ


def clashes(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a variable means something to the engine's client itself, whose environment this
    is."""
    return name in environ or name in _RUNTIME or name.startswith(_CLASHING)


def begin(words: list[str], environ: dict[str, str], is_screen: bool) -> int:
    """The client, in a group of its own: signals reach it through us alone."""
    child = os.fork()
    if child:
        return child
    try:
        signal.set_wakeup_fd(-1)
        for signum in (*TAKEN, signal.SIGCHLD):
            signal.signal(signum, signal.SIG_DFL)
        os.setpgid(0, 0)
        if is_screen:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execve(words[0], words, environ)
    except OSError as error:
        os.write(2, "{}: {}\n".format(words[0], error.strerror).encode())
    os._exit(OURS)


# --- signals --------------------------------------------------------------------------------


def _pass_on(plan: dict[str, Any], signum: int, client: int) -> int:
    """Do to the container what the signal would do to a command. The signal where that ended it."""
    first = first_process(plan)
    if not first:  # it has not begun
        kill(client, signal.SIGKILL)
        return signum
    if first < 0:
        _engine(plan, ["kill", "--signal", str(signum), plan["name"]])
        return 0
    handles, ignores = _answers(first, signum)
    for pid in (-first, first):  # its group; itself where it leads none
        try:
            os.kill(pid, signum)
            break
        except ProcessLookupError:
            continue
        except PermissionError:
            _engine(plan, ["kill", "--signal", str(signum), plan["name"]])
            break
    if handles or ignores:
        return 0
    if not kill(first, signal.SIGKILL):
        _engine(plan, ["kill", "--signal", "KILL", plan["name"]])
    return signum


def first_process(plan: dict[str, Any]) -> int:
    """Its number here; 0: there is none; -1: its number is not one of ours, since the engine's
    processes are not seen from here. What is seen carries this task's mark."""
    if plan["pidfile"]:
        text = _read(plan["pidfile"])
    else:
        text = _engine(plan, ["inspect", "--format", "{{.State.Pid}}", plan["name"]])[1]
    pid = int(text) if text.strip().isdigit() else 0
    mark = "GPULAYER_FENCE=" + os.environ.get("GPULAYER_FENCE", "")
    if pid and mark not in _read("/proc/{}/environ".format(pid)).split("\0"):
        return -1
    return pid


def _answers(pid: int, signum: int) -> tuple[bool, bool]:
    """Whether a process handles the signal, and whether it ignores it (proc_pid_status(5))."""
    masks = dict(
        line.split(":", 1)
        for line in _read("/proc/{}/status".format(pid)).splitlines()
        if line.startswith(("SigCgt:", "SigIgn:"))
    )
    bit = 1 << (signum - 1)
    handles, ignores = (int(masks.get(name, "0"), 16) & bit for name in ("SigCgt", "SigIgn"))
    return bool(handles), bool(ignores)


def kill(pid: int, signum: int) -> bool:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


# --- the end --------------------------------------------------------------------------------


def _end(plan: dict[str, Any], file: str, status: int, ended_by: int, at: float) -> NoReturn:
    signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    code = OURS if signum else os.WEXITSTATUS(status)
    doubtful = bool(signum) or code in (OURS, NOT_EXECUTABLE, NOT_FOUND)
    began = not doubtful or _has_begun(plan, at)
    is_gone = not doubtful or _run(plan["ender"], plan["environ"])[0] == 0
    if ended_by:
        end_as(ended_by)
    if signum and began:
        _explain(file, "container-failed", "{} was ended by signal {} while the job ran".format(
            plan["engine"], signum))  # fmt: skip
    elif not began:
        code = _refused(plan, file, code)
    if not is_gone:
        code = OURS
    os._exit(code)


def _refused(plan: dict[str, Any], file: str, code: int) -> int:
    """The container never began; the engine has said why in the log."""
    word = plan["command"][0]
    if code == NOT_FOUND:
        _explain(file, "command-not-found", "{} is not in the image {}".format(word, plan["image"]))
    elif code == NOT_EXECUTABLE:
        _explain(file, "not-executable", "{} cannot be executed in the image {}".format(
            word, plan["image"]))  # fmt: skip
    else:
        code = OURS
        text = "{} could not run the container; its words are in the job's log"
        _explain(file, "container-failed", text.format(plan["engine"]))
    return code


def _has_begun(plan: dict[str, Any], at: float) -> bool:
    """Podman's client writes the number of the first process down once there is one; Docker keeps
    a list of what has happened."""
    if plan["pidfile"]:
        return os.path.exists(plan["pidfile"])
    filters = ["--filter", "event=start", "--filter", "container=" + plan["name"]]
    times = ["--since", "{:.6f}".format(at - 1), "--until", "{:.6f}".format(time.time())]
    return bool(_engine(plan, ["events", *times, *filters])[1].strip())


def _engine(plan: dict[str, Any], words: list[str]) -> tuple[int, str]:
    return _run([plan["program"], *words], plan["environ"])


def _run(argv: list[str], environ: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a command; -1 where it does not answer in time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for source, target in ((null, 0), (writer, 1), (null, 2)):
                os.dup2(source, target)
            os.execve(argv[0], argv, environ)
        finally:
            os._exit(OURS)
    os.close(writer)
    end = time.monotonic() + _ENGINE_SECONDS
    data = b""
    while select.select([reader], (), (), max(0.0, end - time.monotonic()))[0]:
        piece = os.read(reader, 4096)
        if not piece:
            os.close(reader)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.fsdecode(data)
        data += piece
    os.close(reader)
    kill(child, signal.SIGKILL)
    return -1, ""


def _explain(file: str, slug: str, message: str) -> None:
    import json

    with open(file + ".end", "w", encoding="utf-8") as text:
        json.dump({"slug": slug, "message": message}, text)


def end_as(signum: int) -> NoReturn:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
    os._exit(128 + signum)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read())
    except OSError:
        return ""


if __name__ == "__main__":
    main()
