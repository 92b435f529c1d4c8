"""Facts of the host that cost no process: cores, memory, disk, names.

Cores and memory are what this process may use, not what is built in: CPU affinity
(sched_getaffinity(2)) and the limits of every cgroup above it (cgroups(7); `cpu.max` and
`memory.max` of version 2, `cpu.cfs_quota_us` and `memory.limit_in_bytes` of version 1).
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpulayer.gpu.machine import Machine

GB = 10**9


def cores(machine: Machine, affinity: int | None = None) -> float:
    """CPUs that this process may keep busy; a fraction where a cgroup has a quota."""
    most = float(_affinity() if affinity is None else affinity)
    for folder in _groups(machine, "cpu"):
        quota, period = 0, 0
        if (both := machine.read(f"{folder}/cpu.max")) is not None:
            words = both.split()
            if len(words) == 2 and words[0] != "max":
                quota, period = int(words[0]), int(words[1])
        else:
            quota = _integer(machine.read(f"{folder}/cpu.cfs_quota_us")) or 0
            period = _integer(machine.read(f"{folder}/cpu.cfs_period_us")) or 0
        if quota > 0 and period > 0:
            most = min(most, quota / period)
    return round(most, 2)


def memory_gb(machine: Machine) -> float | None:
    """GB that this process may use; None where nobody says."""
    total = _installed_bytes(machine)
    if total is None:
        return None
    for folder in _groups(machine, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _integer(machine.read(f"{folder}/{name}"))
            if limit is not None and limit > 0:
                total = min(total, limit)
    return round(total / GB, 3)


def disk_gb(folder: Path) -> float | None:
    """GB free to this user where `folder` is, or will be."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return round(shutil.disk_usage(folder).free / GB, 3)
    except OSError:
        return None


def hostname() -> str:
    return platform.node() or "localhost"


def os_name(machine: Machine) -> str:
    """`linux`, `macos`, `windows`, else what Python calls it."""
    return {"darwin": "macos", "win32": "windows"}.get(machine.platform, machine.platform)


def cpu_arch(raw: str | None = None) -> str:
    """`x86_64` or `arm64`, whatever this system calls them."""
    name = (platform.machine() if raw is None else raw).lower()
    return {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64"}.get(name, name)


def own_pid_namespace(machine: Machine) -> bool:
    """Whether process ids here are not those of the kernel's first namespace, as in a container.

    A driver then talks of processes by numbers that mean nothing here.
    """
    try:
        link = os.readlink(machine.path("/proc/self/ns/pid"))
    except OSError:
        return False
    return link != f"pid:[{_FIRST_PID_NAMESPACE}]"


_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h."""


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _installed_bytes(machine: Machine) -> int | None:
    for line in (machine.read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    if machine.platform == "linux":
        return None
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        import psutil

        return int(psutil.virtual_memory().total)


def _groups(machine: Machine, controller: str) -> Iterator[str]:
    """The folders of this process's cgroup and of all above it, for one controller."""
    for line in (machine.read("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            mounts = [f"/sys/fs/cgroup/{controller}", f"/sys/fs/cgroup/{controllers}"]
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for mount in mounts:
            for depth in range(len(parts), -1, -1):
                yield "/".join([mount, *parts[:depth]])


def _integer(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
