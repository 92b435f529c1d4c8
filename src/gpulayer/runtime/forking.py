"""A template process as its supervisor has it, and how one task is forked from it. The rules are in
`zygotes`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from gpulayer.runtime import cgroup, spawn
    from gpulayer.runtime.zygotes import Zygotes


class Zygote:
    """One template. `why`: what ended it, or why it must not be used."""

    def __init__(self, key: str, sock: socket.socket, pid: int, leaf: cgroup.Leaf, now: float):
        self.key = key
        self.sock = sock
        self.pid = pid
        self.leaf = leaf
        self.next: cgroup.Leaf | None = None
        """Of its next call."""
        self.used_at = now
        self.ready = False
        self.is_over = False
        self.why = ""
        self.forks = 0
        self.bytes = 0

    @property
    def leaves(self) -> list[cgroup.Leaf]:
        """Its own, and that of its next call."""
        return [self.leaf] if self.next is None else [self.leaf, self.next]


class Forking:
    """How one task begins: `start` returns its leader, or -1 where it must start cold. `why` says
    why it did; nothing where it was forked."""

    def __init__(
        self, zygotes: Zygotes, zygote: Zygote | None, why: str, script: Any = None
    ) -> None:
        self._zygotes = zygotes
        self._zygote = zygote
        self._script = script
        self._leaf: cgroup.Leaf | None = None
        self.why = why

    def take_leaf(self) -> cgroup.Leaf | None:
        """The one that its process is in already. It is the task's now, cold or not."""
        if self._zygote is not None:
            self._leaf = self._zygotes.take_leaf(self._zygote)
        return self._leaf

    def start(self, launch: spawn.Launch) -> int:
        """SpawnError where its folder is gone, as a cold start would say."""
        if self._zygote is None:
            return -1
        pid = -1
        if self._leaf is not None:
            pid = self._zygotes.fork(self._zygote, launch, self._leaf, self._script)
        if pid < 0:
            self.why = self._zygote.why
        return pid

    def give_up(self) -> None:
        """Its task does not begin."""
        if self._zygote is not None and self._leaf is not None:
            self._zygotes.end(self._zygote)
            self._leaf.kill()
