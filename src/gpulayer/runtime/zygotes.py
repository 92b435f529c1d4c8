"""The template processes of one supervisor, and which call is forked from which.

A call whose template is not ready starts cold, at once: nobody waits for an import. A template is
begun for a call that names what to preload, else for the second one that could have used it. The
least recently used one goes when there are too many or they hold too much memory, and each goes
after a while without calls. A template that failed, grew old or does not answer is ended with all
that is in its leaf, and its calls start cold.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time

from gpulayer.runtime import cgroup, crash, spawn, zygote_line
from gpulayer.runtime.forking import Forking, Zygote
from gpulayer.runtime.loop import READ
from gpulayer.runtime.zygote_keys import MOST, Bounds, Shared, obstacle, shared, with_site

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpulayer.runtime.loop import Loop, Timer
    from gpulayer.runtime.mounts import Mounts
    from gpulayer.runtime.processes import Children

PREFIX, NEXT = "zygote.", "call."
"""Of the leaves: of templates, and of what each forks."""
IMPORT_SECONDS = 300.0
REFUSED_SECONDS = 600.0
"""How long a template that could not be is not tried again."""
FORKS = 10_000
"""After so many calls a template is begun anew."""
KNOWN = 256

_PR_SET_PDEATHSIG = 1
_HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(_HERE, "zygote.py")
SITE = os.path.join(_HERE, "zygote_site")
"""What makes a template of a Python that runs scripts."""


class Zygotes:
    def __init__(
        self, loop: Loop, children: Children, leaves: str, mounts: Mounts, bounds: Bounds
    ) -> None:
        self._loop = loop
        self._children = children
        self._leaves = leaves
        self._mounts = mounts
        self._count = 0
        self._living: dict[str, Zygote] = {}
        """Key -> template, the least recently used first."""
        self._refused: dict[str, tuple[float, str]] = {}
        self._seen: dict[str, None] = {}
        self._looking: Timer | None = None
        self._prctl: Any = ctypes.CDLL(None).prctl
        self._bounds = bounds

    def forking(self, request: dict[str, Any], launch: spawn.Launch) -> Forking:
        """For a task that says `warm`. Begins a template, after the task, where one is wanted."""
        warm = request["warm"]
        secrets = [(name, value) for name, value in request.get("redact") or ()]
        why = obstacle(launch, secrets) or self._obstacle(launch)
        if why:
            return Forking(self, None, why)
        wanted = shared(launch, warm, secrets, _identity(launch.argv[0]))
        zygote = self._living.get(wanted.key)
        if zygote is not None and zygote.ready:
            return Forking(self, zygote, "", warm.get("script"))
        if zygote is not None:
            return Forking(self, None, "its warm process is still importing")
        until, why = self._refused.get(wanted.key, (0.0, ""))
        if time.monotonic() < until:
            return Forking(self, None, why)
        is_asked = warm.get("preload") and (warm.get("script") or {}).get("named", True)
        if is_asked or wanted.key in self._seen:
            self._loop.after(0, lambda: self._begin(wanted, warm, launch))
        self._see(wanted.key)
        return Forking(self, None, "its warm process begins with it")

    def take_leaf(self, zygote: Zygote) -> cgroup.Leaf | None:
        """Of its next call; None where it can have none."""
        self._lay_next(zygote)
        leaf, zygote.next = zygote.next, None
        return leaf

    def fork(
        self, zygote: Zygote, launch: spawn.Launch, leaf: cgroup.Leaf, script: Any = None
    ) -> int:
        """A leader that is past its gate, or -1: then nothing of the job ran. This process waits
        for it, as it does for an exec. `leaf`: what was taken for the call."""
        if zygote.is_over:
            leaf.kill()  # the process that waited there
            return -1
        folder = self._open_folder(launch)
        gate, theirs = socket.socketpair()
        try:
            fds = [launch.stdin, launch.stdout, launch.stderr, folder, theirs.fileno()]
            pid, zygote.why = zygote_line.ask(zygote.sock, fds)
            theirs.close()
            crash.point("zygote-forked")
            if pid < 0 or not zygote_line.open_gate(gate, launch, script):
                zygote.why = zygote.why or "its forked process does not answer"
                self._refuse(zygote) if zygote.forks == 0 else self.end(zygote)
                leaf.kill()  # a child may wait there, at a gate that will not open
                return -1
            crash.point("zygote-opened")
        finally:
            os.close(folder)
            theirs.close()
            gate.close()
        zygote.used_at = time.monotonic()
        zygote.forks += 1
        self._living[zygote.key] = self._living.pop(zygote.key)
        if zygote.forks >= FORKS:
            zygote.why = "its warm process has served long enough"
            self.end(zygote)
        else:
            self._loop.after(0, lambda: self._lay_next(zygote))
        return pid

    def _lay_next(self, zygote: Zygote) -> None:
        """Have it wait for its next call in the leaf of that. Twice-safe."""
        if zygote.is_over or zygote.next is not None:
            return
        self._count += 1
        try:
            zygote.next = cgroup.Leaf(os.path.join(self._leaves, f"{NEXT}{self._count}"))
            zygote_line.send(zygote.sock, {}, [zygote.next.procs])
        except OSError:
            zygote.why = zygote.why or "its warm process was killed"
            self.end(zygote)

    def close(self) -> None:
        """Ends them all. Who owns the leaves waits until nothing of them lives."""
        for zygote in list(self._living.values()):
            self.end(zygote)

    def _obstacle(self, launch: spawn.Launch) -> str:
        if launch.controls >= 0:
            return "it has a terminal"
        if any(map(self._mounts.may_hang, (launch.cwd, launch.argv[0]))):
            return "its folder or its interpreter may be on another machine"
        return ""

    def _see(self, key: str) -> None:
        self._seen.pop(key, None)
        self._seen[key] = None
        while len(self._seen) > KNOWN:
            del self._seen[next(iter(self._seen))]

    def _begin(self, wanted: Shared, warm: dict[str, Any], launch: spawn.Launch) -> None:
        if wanted.key in self._living:
            return
        while len(self._living) >= MOST:
            self.end(next(iter(self._living.values())))
        self._count += 1
        ours, theirs = socket.socketpair()
        leaf = None
        sink = os.memfd_create("gpulayer-zygote", os.MFD_CLOEXEC)
        try:
            leaf = cgroup.Leaf(os.path.join(self._leaves, f"{PREFIX}{self._count}"))
            made = _template_launch(launch, wanted, warm, theirs.fileno(), sink)
            pid, news = spawn.spawn(made, leaf, self._die_with_it)
            os.close(news)  # one that can't begin is seen by its end
        except OSError:
            ours.close()
            if leaf is not None:
                leaf.close()
            return
        finally:
            os.close(sink)
            theirs.close()
        zygote = Zygote(wanted.key, ours, pid, leaf, time.monotonic())
        self._living[wanted.key] = zygote
        self._children.watch(pid, lambda status, _: self._gone(zygote))
        ours.settimeout(zygote_line.ANSWER_SECONDS)
        said = {
            "environ": wanted.told,
            "preload": list(warm.get("preload") or ()),
            "sys_path": list(warm.get("sys_path") or ()),
            "runner": os.fsdecode(launch.argv[1]),
        }
        try:
            zygote_line.send(ours, said, [])
        except OSError:
            pass  # its end is told
        self._loop.watch(ours.fileno(), READ, lambda: self._hear(zygote))
        self._watch_time()

    def _die_with_it(self) -> None:
        """In the child: never past its supervisor's end (prctl(2))."""
        self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)

    def _hear(self, zygote: Zygote) -> None:
        """That it is ready, or why it can't be."""
        self._loop.unwatch(zygote.sock.fileno())
        try:
            word, text = zygote_line.receive(zygote.sock)
        except (OSError, EOFError):
            word, text = "refused", "its warm process ended while it imported"
        if word != "ready" or not text.isdigit():
            zygote.why = text
            self._refuse(zygote)
            return
        zygote.ready = True
        zygote.bytes = int(text)
        zygote.used_at = time.monotonic()
        most = self._bounds.most_bytes
        if zygote.bytes > most:
            zygote.why = f"what it imports takes more than {most >> 20} MiB"
            self._refuse(zygote)
            return
        self._lay_next(zygote)
        while sum(z.bytes for z in self._living.values()) > most:
            self.end(next(z for z in self._living.values() if z is not zygote))

    def _refuse(self, zygote: Zygote) -> None:
        while len(self._refused) >= KNOWN:
            del self._refused[next(iter(self._refused))]
        self._refused[zygote.key] = time.monotonic() + REFUSED_SECONDS, zygote.why
        self.end(zygote)

    def end(self, zygote: Zygote) -> None:
        """Twice-safe. It is over when it has been waited for."""
        if zygote.is_over:
            return
        zygote.is_over = True
        zygote.why = zygote.why or "its warm process was ended"
        self._living.pop(zygote.key, None)
        self._loop.unwatch(zygote.sock.fileno())
        zygote.sock.close()
        for leaf in zygote.leaves:
            leaf.kill()

    def _gone(self, zygote: Zygote) -> None:
        if not zygote.ready and not zygote.is_over:
            self._hear(zygote)  # its last words may still wait in the socket
        zygote.why = zygote.why or "its warm process was killed"
        self.end(zygote)
        for leaf in zygote.leaves:
            leaf.close()

    def _watch_time(self) -> None:
        if self._looking is None:
            self._looking = self._loop.after(self._bounds.idle_seconds / 8, self._look)

    def _look(self) -> None:
        self._looking = None
        now = time.monotonic()
        for zygote in list(self._living.values()):
            if not zygote.ready and now > zygote.used_at + IMPORT_SECONDS:
                zygote.why = "its warm process did not come to an end with importing"
                self._refuse(zygote)
            elif zygote.ready and now > zygote.used_at + self._bounds.idle_seconds:
                self.end(zygote)
        if self._living:
            self._watch_time()

    def _open_folder(self, launch: spawn.Launch) -> int:
        root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            spawn.enter_folder(launch)
            return os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.fchdir(root)
            os.close(root)


def _template_launch(
    launch: spawn.Launch, wanted: Shared, warm: dict[str, Any], control: int, sink: int
) -> spawn.Launch:
    """The call's own start, with the template's program and none of the call's streams."""
    program, environ = [os.fsencode(PROGRAM)], wanted.early
    if (script := warm.get("script")) is not None:
        program = [*map(os.fsencode, script["flags"]), b"-m", b"zygote"]
        environ = with_site(environ, os.fsencode(SITE))
    made = spawn.Launch([launch.argv[0], *program], environ, launch.cwd, {})
    made.argv0 = launch.argv0
    for name in ("cwd_id", "umask", "rlimits", "nice", "affinity", "ignored"):
        setattr(made, name, getattr(launch, name))
    made.stdin, made.stdout, made.stderr = control, sink, sink
    return made


def _identity(path: bytes) -> object:
    """Of an interpreter, and of the link that leads to it."""
    try:
        at, link = os.stat(path), os.lstat(path)
    except OSError:
        return None
    return at.st_dev, at.st_ino, at.st_mtime_ns, at.st_size, link.st_ino, link.st_mtime_ns
