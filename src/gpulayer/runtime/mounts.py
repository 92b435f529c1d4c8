"""Which paths may hang: those on file systems that are another machine's, or a program's.

Only the table of mounts is read (proc(5) mountinfo), never the paths, since to look is to hang.
"""

from __future__ import annotations

_OTHERS = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "lustre", "gpfs", "afs", "beegfs", "autofs")
_NOT_OTHERS = (b"fuseblk",)


class Mounts:
    """As of the last `refresh`. Where the system has no such table every path may hang."""

    def __init__(self) -> None:
        self._slow: tuple[bytes, ...] = (b"/",)
        self._raw = b""
        self.refresh()

    def refresh(self) -> None:
        try:
            with open("/proc/self/mountinfo", "rb") as file:
                raw = file.read()
        except OSError:
            return
        if raw != self._raw:
            self._raw = raw
            self._slow = tuple(_slow_points(raw))

    def may_hang(self, path: bytes) -> bool:
        """Whether to look at this path, or to run what is there, may wait for another machine."""
        return any(
            point == b"/" or path == point or path.startswith(point + b"/") for point in self._slow
        )


def _slow_points(raw: bytes) -> list[bytes]:
    points = []
    for line in raw.splitlines():
        before, _, after = line.partition(b" - ")
        kind = after.split(b" ", 1)[0]
        if kind.startswith(tuple(name.encode() for name in _OTHERS)) and kind not in _NOT_OTHERS:
            point = before.split(b" ")[4]
            points.append(point.replace(b"\\040", b" ").replace(b"\\011", b"\t"))
    return points
