"""Python stacks of a task's processes: `PY stacks.py FOLDER`, run inside the task, prints JSON.

    {"processes": [{pid, rank, is_rank, command, source, why, threads}]}

One file and its neighbour `rank_start`, the standard library alone. `threads`: [{is_main, frames}],
a frame being [file, line, function], the outermost first. `source` is faulthandler, py-spy or null,
and then `why` says what is missing.

A process is sent the signal only where the kernel says that it catches it and that the file of
`rank_start` is open in it, and only once it is a second old: what was just forked may be about to
become another program, which the signal would end. Any other Python is looked at with py-spy, where
that is installed: it reads the process from outside.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from gpulayer.runtime import rank_start
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import rank_start

_MARKER = "GPULAYER_FENCE"
_ANSWER_SECONDS = 2.0
_QUIET_SECONDS = 0.05
_YOUNG_SECONDS = 1.0
_SPY_SECONDS = 20.0
_LEADERS = ("node_shim.py", "rank_shim.py", "torch.distributed.run", "container_shim.py")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')


def main() -> None:
    folder = os.path.realpath(sys.argv[1])
    found = [entry for pid in members() for entry in look(pid, folder)]
    json.dump({"processes": found}, sys.stdout)


def members() -> list[int]:
    """Processes of the task that this one is in, without this one and who leads ranks."""
    mine = _environ(os.getpid()).get(_MARKER)
    found = []
    for name in os.listdir("/proc") if mine else ():
        pid = int(name) if name.isdigit() else 0
        if pid and pid != os.getpid() and _environ(pid).get(_MARKER) == mine:
            found.append(pid)
    return sorted(found)


def look(pid: int, folder: str) -> Iterator[dict[str, Any]]:
    """One entry, or none where it is no Python of the job's or has just ended."""
    try:
        words = _read(pid, "cmdline").decode("utf-8", "replace").split("\0")[:-1]
        name = os.path.basename(os.readlink("/proc/{}/exe".format(pid)))
        file = opened(pid, folder)
    except OSError:
        return
    if file is None and ("python" not in name or any(w.endswith(_LEADERS) for w in words)):
        return
    rank = _environ(pid).get("RANK", "")
    entry: dict[str, Any] = {
        "pid": pid,
        "rank": int(rank) if rank.isdigit() else None,
        "is_rank": file is not None and os.path.basename(file) == str(pid) + rank_start.SUFFIX,
        "command": " ".join(words)[:200],
        "source": None,
        "why": "",
        "threads": [],
    }
    try:
        if file is not None:
            entry["threads"] = parsed(_asked(pid, file))
            entry["source"] = "faulthandler"
        else:
            entry["threads"] = _spied(pid)
            entry["source"] = "py-spy"
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        entry["why"] = str(error)
    yield entry


def opened(pid: int, folder: str) -> str | None:
    """The file into which the process will write, where it surely will."""
    status = _status(pid)
    if not int(status["SigCgt"], 16) >> (rank_start.SIGNAL - 1) & 1:
        return None
    where = "/proc/{}/fd".format(pid)
    for name in os.listdir(where):
        try:
            file = os.readlink(os.path.join(where, name))
        except OSError:
            continue
        if file.endswith(rank_start.SUFFIX) and file.startswith(folder + os.sep):
            return file
    return None


def parsed(text: str) -> list[dict[str, Any]]:
    """The threads of what faulthandler wrote, the main one first: it writes the newest first."""
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        frame = _FRAME.fullmatch(line)
        if "(most recent call first)" in line:
            threads.insert(0, {"is_main": False, "frames": []})
        elif frame and threads:
            number = int(frame[2]) if frame[2].isdigit() else 0
            threads[0]["frames"].insert(0, [frame[1], number, frame[3]])
    for thread in threads[:1]:
        thread["is_main"] = True
    return threads


def _asked(pid: int, file: str) -> str:
    """What the process wrote of itself. One who asks waits for another."""
    with open(file, encoding="utf-8", errors="replace") as answer:
        fcntl.flock(answer, fcntl.LOCK_EX)
        answer.seek(_told(pid, file))
        return answer.read()


def _told(pid: int, file: str) -> int:
    """Have it write; where in the file that begins. ValueError: why it did not."""
    state = _status(pid)["State"][:1]
    if state in "Tt":
        raise ValueError("it is stopped")
    if _age(pid) < _YOUNG_SECONDS:
        raise ValueError("it has only just begun; look again")
    size = os.stat(file).st_size
    if opened(pid, os.path.dirname(file)) != file:
        raise ValueError("it has become another program")
    os.kill(pid, rank_start.SIGNAL)
    end = time.monotonic() + _ANSWER_SECONDS
    seen, since = size, time.monotonic()
    while True:
        now = time.monotonic()
        new = os.stat(file).st_size
        if new != seen:
            seen, since = new, now
        elif seen > size and now - since >= _QUIET_SECONDS:
            return size
        elif now >= end:
            raise ValueError("it does not answer; its state is {}".format(_status(pid)["State"]))
        time.sleep(_QUIET_SECONDS / 5)


def _spied(pid: int) -> list[dict[str, Any]]:
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=os.path.dirname(sys.executable))
    if spy is None:
        raise ValueError("no rank of a distributed job, and py-spy is not installed there")
    done = subprocess.run(
        [spy, "dump", "--nonblocking", "--json", "--pid", str(pid)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_SPY_SECONDS,
    )  # fmt: skip
    if done.returncode:
        raise ValueError("py-spy: " + done.stderr.decode("utf-8", "replace").strip()[:500])
    return [
        {
            "is_main": thread.get("thread_name") == "MainThread"
            or thread.get("os_thread_id") == pid,
            "frames": [
                [frame["filename"], frame.get("line") or 0, frame["name"]]
                for frame in reversed(thread["frames"])
            ],
        }
        for thread in json.loads(done.stdout)
    ]


def _environ(pid: int) -> dict[str, str]:
    try:
        block = _read(pid, "environ").decode("utf-8", "surrogateescape")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in block.split("\0") if "=" in entry)


def _status(pid: int) -> dict[str, str]:
    lines = _read(pid, "status").decode("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _age(pid: int) -> float:
    began = int(_read(pid, "stat").rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


def _read(pid: int, name: str) -> bytes:
    with open("/proc/{}/{}".format(pid, name), "rb") as file:
        return file.read()


if __name__ == "__main__":
    main()
