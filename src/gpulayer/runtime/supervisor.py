"""The supervisor: owns the processes of tasks on this machine, whoever else comes and goes.

Stdlib only, one thread, one socket, started as `python -I -S`. It holds the lock of its home, a
journal, a birth file and a log segment per task, and the read ends of every job. It knows nothing
of jobs, retries or GPUs: the agent says what to start, clients watch and interrupt.

The protocol (frames: `gpulayer.runtime.frames`). Requests are `{"op", "seq", ...}`; each with a
`seq` is answered by `{"seq", "ok": true, ...}` or `{"seq", "error": {"code", "message"}}`.

    hello     role "client" | "agent", wire, version -> wire, version, pid, containment, world.
              A new agent closes the older agent's connection.
    envelope  envelope, keep -> envelope_id; or envelope_id alone, before each submission from a
              connection that stays. Error: envelope-lost. Twice-safe.
    attach    envelope, streams, merged, mode, terminal?, labels?, fds ["stdin"?, "cwd"?],
              attach_id? (of one that an earlier supervisor had) -> attach_id, envelope_id.
              The connection then belongs to this attach: it gets
              {"event": "started" | "stopped" | "continued" | "flags" | "exited"} and frames 1, 2
              and T, and may send I frames and, with no answer, `signal`, `winsize`, `closed`,
              `kill`. Closing it is to detach.
    start     task, tail? {seq, offset, max_bytes} -> pid, and `cold` of a task that says `warm`
              (why it was not forked, or nothing); and what `tail` answers, under its own seq.
              Twice-safe by task_id. Errors: envelope-lost, folder-gone, not-found,
              not-executable, spawn-failed; their "exit" is the record a client was shown.
    cancel    task_id, mode "int" | "term" | "kill", grace_seconds, reason? Twice-safe.
    lease     until {task_id: boot time}: these end then, reason worker_lost, unless it is said
              again; all others run on. For the agent alone.
    tail      task_id, offset, max_bytes -> bytes, size, eof, exit, then one L frame if bytes > 0.
              Waits for bytes past offset, or the end.
    list      -> tasks
    forget    task_id: once it has ended, its files go. Twice-safe.
    visit     task_id, fence, argv (null: the user's shell), set, mark, fds ["stdin", "stdout",
              "stderr"] or ["terminal"]: a command in the task's world and box, `mark` what it has
              elsewhere carries in its environment; or watch: its end alone. The connection then
              gets {"event": "started" | "ended" | "task-ended"} and may send, with no answer,
              `signal_visit`. Closing it ends the command. Error: not-running.
    environ   envelope_id, names -> values {name: value or null}. For the agent alone.
    redact    task_id, texts -> texts without the values of the task's secrets
    drop      envelope_ids
    keep      envelope_ids: drop all others
    quit      refused while tasks live

`envelope`, `task` and EXIT are described in `envelopes`, `tasks` and `exits`.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from gpulayer._version import __version__
from gpulayer.runtime import cgroup, homelock, processes
from gpulayer.runtime.digest import sha256_hex
from gpulayer.runtime.dispatch import REATTACH_SECONDS, Dispatch
from gpulayer.runtime.envelopes import Envelopes
from gpulayer.runtime.homelock import HomeLock
from gpulayer.runtime.journal import Journal
from gpulayer.runtime.loop import READ, Loop
from gpulayer.runtime.peers import Listener
from gpulayer.runtime.roster import Roster
from gpulayer.runtime.spawn import withstand
from gpulayer.runtime.zygote_keys import IDLE_SECONDS, Bounds, most_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpulayer.runtime.loop import Timer

SOCKET = "s.sock"
CHECK_SECONDS = 1.0
"""How often it looks whether its home is still there; deleting a folder tells nobody."""

LOG_BYTES = 256 << 10


class Settings:
    """`--home --runtime --idle-seconds --reattach-seconds --containment auto|keeper|cgroup
    --zygote-seconds --zygote-bytes --ready-fd --owner-fd`.

    The owner's descriptor is a pipe: at its end all tasks are ended and the supervisor leaves.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        given = {argv[i]: argv[i + 1] for i in range(0, len(argv) - 1, 2)}
        self.home = given["--home"]
        self.runtime = given["--runtime"]
        self.idle_seconds = float(given.get("--idle-seconds", "60"))
        self.reattach_seconds = float(given.get("--reattach-seconds", REATTACH_SECONDS))
        self.containment = given.get("--containment", "auto")
        self.zygotes = Bounds(
            float(given.get("--zygote-seconds", IDLE_SECONDS)),
            int(given.get("--zygote-bytes", "0")) or most_bytes(),
        )
        self.ready_fd = int(given.get("--ready-fd", "-1"))
        self.owner_fd = int(given.get("--owner-fd", "-1"))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs until idle, told to, or its home is gone. Returns at once where another one holds the
    home; nothing is then written to `--ready-fd`."""
    settings = Settings(sys.argv[1:] if argv is None else argv)
    _stand_alone(settings)
    lock = homelock.take_or_find(
        os.path.join(settings.home, "sup", "lock"), os.path.join(settings.runtime, SOCKET)
    )
    if lock is None:
        return 0
    return Supervisor(settings, lock).run()


class Supervisor:
    """One life, from the lock to the last task."""

    def __init__(self, settings: Settings, lock: HomeLock) -> None:
        self._settings = settings
        self._lock = lock
        self._loop = Loop(_log)
        home = settings.home
        self._roster = Roster(
            self._loop,
            Journal(os.path.join(home, "sup", "journal")),
            os.path.join(home, "tasks"),
            leaf_label(home),
            _leaves(settings),
            time.time,
            self._changed,
            self._settings.zygotes,
        )
        self._dispatch = Dispatch(
            self._loop,
            self._roster,
            Envelopes(os.path.join(settings.runtime, "envelopes")),
            about={"version": _version(), "containment": self._roster.containment},
            clock=time.time,
            reattach_seconds=settings.reattach_seconds,
            changed=self._changed,
            leave=self._leave,
        )
        self._listener: Listener | None = None
        self._idle: Timer | None = None
        self._leaving = False

    def run(self) -> int:
        processes.adopt_orphans()
        self._loop.on_signal(signal.SIGCHLD, self._roster.children.reap)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._loop.on_signal(signum, self._end_all)
        self._roster.take_over()
        if self._settings.owner_fd >= 0:
            self._loop.watch(self._settings.owner_fd, READ, self._owner_left)
        self._listen()
        self._check()
        self._changed()
        _tell_ready(self._settings.ready_fd)
        self._loop.run()
        self._roster.close()
        return 0

    def _listen(self) -> None:
        path = os.path.join(self._settings.runtime, SOCKET)
        self._listener = Listener(self._loop, path, self._dispatch.accept)

    def _check(self) -> None:
        self._loop.after(CHECK_SECONDS, self._check)
        if not self._lock.is_in_place():
            self._end_all()
        elif not (self._listener is not None and self._listener.is_in_place()):
            self._listen_again()  # something swept the folder of sockets; the tasks are still ours
        self._roster.quick.mounts.refresh()

    def _listen_again(self) -> None:
        """Or at the next check: the folder may be away for a moment."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        try:
            self._listen()
        except FileNotFoundError:
            pass

    def _changed(self) -> None:
        """A client or a task came or went."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._roster.running:
            return
        if self._leaving:
            self._leave()
        elif not self._dispatch.peers:
            self._idle = self._loop.after(self._settings.idle_seconds, self._leave)

    def _owner_left(self) -> None:
        self._loop.unwatch(self._settings.owner_fd)
        self._end_all()

    def _end_all(self) -> None:
        self._leaving = True
        for task in list(self._roster.running.values()):
            task.cancel("kill", 0, "shutdown")
        self._changed()

    def _leave(self) -> None:
        if self._roster.running:
            return
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        # Answers on their way, the one to `quit` among them, go out first.
        self._loop.after(0, self._loop.stop)


def _stand_alone(settings: Settings) -> None:
    """Nothing of whoever started it may leak into a job."""
    withstand([signal.SIGPIPE, signal.SIGXFSZ])  # a peer that left must not end us
    os.umask(0o077)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    log = _open_log(os.path.join(settings.home, "supervisor.log"))
    for source, target in ((null, 0), (null, 1), (log, 2)):
        os.dup2(source, target)
    first = 3
    for kept in sorted(fd for fd in (settings.ready_fd, settings.owner_fd) if fd >= 3):
        os.closerange(first, kept)
        first = kept + 1
        os.set_inheritable(kept, False)
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def _open_log(path: str) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    if os.fstat(fd).st_size > LOG_BYTES:
        os.ftruncate(fd, 0)
    return fd


def _leaves(settings: Settings) -> str | None:
    """The folder for cgroup leaves; None where keepers do the work."""
    if settings.containment == "keeper":
        return None
    leaves = cgroup.find_parent(leaf_label(settings.home))
    if leaves is None and settings.containment == "cgroup":
        raise SystemExit("no cgroup v2 hierarchy that this process may write")
    return leaves


def leaf_label(home: str) -> str:
    """One home's name among all on this machine: of its folder of leaves, and in the mark that its
    jobs carry. The path alone is not enough: another container's home may have the same one."""
    where = os.stat(home)
    text = f"{os.path.realpath(home)}:{where.st_dev}:{where.st_ino}"
    return sha256_hex(os.fsencode(text))[:16]


def _version() -> str:
    return __version__


def _tell_ready(fd: int) -> None:
    if fd >= 0:
        os.write(fd, b"\n")
        os.close(fd)


def _log(error: BaseException) -> None:
    try:
        sys.stderr.write(time.strftime("%Y-%m-%d %H:%M:%S error\n"))
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    except OSError:
        pass  # the disk is full, and that must end nobody


if __name__ == "__main__":
    sys.exit(main())
