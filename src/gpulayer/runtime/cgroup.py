"""Cgroup leaves: a box per task that nothing leaves, not even by double fork and empty environment.

cgroups(7), and the kernel's admin-guide/cgroup-v2: `cgroup.kill` ends all that is inside,
`cgroup.events` says `populated 0` once nothing lives there, with a priority event at each change.
A leaf needs no controller. Where the hierarchy can't be written there are none, and a keeper
(`gpulayer.runtime.keeper`) does the work.
"""

from __future__ import annotations

import functools
import os
import select
import signal

from gpulayer.runtime import hierarchy, memory

PREFIX = "gpl-"


class Leaf:
    """The box of one task. Making, killing and removing are twice-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._was_killed = False
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)  # `_tidy` of another home came between
        self.procs = os.open(os.path.join(path, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
        self.events = os.open(os.path.join(path, "cgroup.events"), os.O_RDONLY | os.O_CLOEXEC)

    def join(self) -> None:
        """Puts the calling process, and all that it forks from now on, into the box."""
        os.write(self.procs, b"0")

    def fork(self) -> int:
        """As `os.fork`, the child in the box; -1 where a child has to join by itself. It must do no
        more than exec or fork: see `inside`."""
        if self._was_killed or not _may_begin_inside(os.path.dirname(self.path)):
            return -1  # Linux takes a child that begins in what was killed once for a survivor
        return _begun_inside(self)

    def open_folder(self) -> int:
        return os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def is_populated(self) -> bool:
        """Whether anything lives inside. Reading re-arms the priority event of `events`."""
        return b"populated 1" in os.pread(self.events, 4096, 0)

    def pids(self) -> list[int]:
        return _pids(self.path)

    def kill(self) -> None:
        """Ends all that is inside; `is_populated` proves it."""
        self._was_killed = True
        _kill(self.path)

    def out_of_memory(self) -> bool:
        """Whether the kernel ended something inside for memory. False where nobody counts."""
        return memory.counted(hierarchy.read(os.path.join(self.path, "memory.events")).encode()) > 0

    def close(self) -> None:
        """Lets go of the box, and removes it if it is empty."""
        if self.procs >= 0:
            os.close(self.procs)
            os.close(self.events)
            self.procs = self.events = -1
        remove(self.path)


def find_parent(label: str) -> str | None:
    """Makes and returns the folder for leaves, inside this process's own cgroup; None where the
    hierarchy is absent or can't be written. `label` tells one home from another."""
    group = dict(hierarchy.own_groups()).get("", "")
    for own in (mount + group for kind, mount, _ in hierarchy.mounts() if kind == "cgroup2"):
        parent = os.path.join(own, PREFIX + label)
        try:
            os.makedirs(parent, exist_ok=True)
            probe = Leaf(os.path.join(parent, "probe"))
        except OSError:
            continue
        # A process may enter only where it may write the common ancestor's list as well.
        enters = os.access(os.path.join(own, "cgroup.procs"), os.W_OK)
        probe.close()
        if enters:
            _tidy(os.path.dirname(parent), os.path.basename(parent))
            return parent
    return None


@functools.cache
def _may_begin_inside(parent: str) -> bool:
    """Tried out once: an old kernel, a filter of calls and a past of our own cgroup forbid it."""
    probe = Leaf(os.path.join(parent, "probe"))
    try:
        pid = _begun_inside(probe)
        if pid == 0:
            os._exit(0)
        return pid > 0 and os.waitpid(pid, 0)[1] == 0
    finally:
        probe.close()


def _begun_inside(leaf: Leaf) -> int:
    try:
        from gpulayer.runtime import inside  # ctypes, for the first that needs it
    except (ImportError, AttributeError):
        return -1
    folder = leaf.open_folder()
    try:
        return inside.fork(folder)
    except OSError:
        return -1
    finally:
        os.close(folder)


def open_own_list(leaves: str) -> int:
    """The list of processes of the cgroup that `leaves` lies in: where one comes back to."""
    own = os.path.join(os.path.dirname(leaves), "cgroup.procs")
    return os.open(own, os.O_WRONLY | os.O_CLOEXEC)


def end_leaves(parent: str) -> int:
    """Ends whatever lives in the leaves of `parent`, removes them, and counts the processes ended.

    For whoever notices that the supervisor of these leaves is dead. Twice-safe; waits for proof.
    """
    try:
        names = os.listdir(parent)
    except OSError:
        return 0
    return sum(end_leaf(os.path.join(parent, name)) for name in sorted(names))


def end_leaf(path: str) -> int:
    """Ends whatever lives in the leaf at `path`, waits for proof, removes it."""
    if not os.path.isfile(os.path.join(path, "cgroup.events")):
        return 0
    leaf = Leaf(path)
    ended = len(leaf.pids())
    try:
        while leaf.is_populated():
            leaf.kill()
            _wait_for_event(leaf.events)
    finally:
        leaf.close()
    return ended


def _tidy(folder: str, own: str) -> None:
    """Removes the empty folders of other homes; one that is in use is made again with its leaf."""
    for name in _folders(folder):
        if name.startswith(PREFIX) and name != own:
            try:
                os.rmdir(os.path.join(folder, name))
            except OSError:
                pass  # it holds leaves


def pids_below(path: str) -> list[int]:
    """Everything that lives in the leaf, or in the folder of leaves, at `path`."""
    return _pids(path)


def _kill(path: str) -> None:
    try:
        with open(os.path.join(path, "cgroup.kill"), "wb", buffering=0) as file:
            file.write(b"1")
    except FileNotFoundError:
        _kill_one_by_one(path)  # before Linux 5.14


def _kill_one_by_one(path: str) -> None:
    _write(os.path.join(path, "cgroup.freeze"), b"1")
    for pid in _pids(path):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _write(os.path.join(path, "cgroup.freeze"), b"0")


def remove(path: str) -> None:
    """The box and those in it, or a folder of boxes; what is populated stays."""
    if _is_removed(path):
        return
    for name in _folders(path):  # boxes that the job made inside its own
        remove(os.path.join(path, name))
    _is_removed(path)


def _is_removed(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        pass
    except OSError:
        return False  # it holds boxes, or is still populated: `end_leaves` removes it
    return True


def _wait_for_event(events: int) -> None:
    poll = select.poll()
    poll.register(events, select.POLLPRI)
    poll.poll(100)


def _pids(path: str) -> list[int]:
    found = [int(line) for line in hierarchy.read(os.path.join(path, "cgroup.procs")).split()]
    for name in _folders(path):
        found += _pids(os.path.join(path, name))
    return found


def _folders(path: str) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []


def _write(path: str, data: bytes) -> None:
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(data)
    except OSError:
        pass
