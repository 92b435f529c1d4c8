"""Where this process is among the control groups, and where their trees are: cgroups(7)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def own_groups() -> Iterator[tuple[str, str]]:
    """(controller, path) of this process; version 2 has the empty name."""
    for line in read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path.rstrip("/")


def mounts() -> Iterator[tuple[str, str, str]]:
    """(`cgroup` or `cgroup2`, mount point, options)."""
    for line in read("/proc/self/mounts").splitlines():
        fields = line.split(" ")
        if len(fields) > 3 and fields[2] in ("cgroup", "cgroup2"):
            yield fields[2], fields[1].encode().decode("unicode_escape"), fields[3]


def read(path: str) -> str:
    """A file of the kernel's; empty where there is none."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
