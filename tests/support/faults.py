"""Faults of the machine, made on purpose and taken back: small disks, other users."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpulayer.runtime import memory

_NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS of unshare(2)."""

NEEDS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: it mounts a file system or becomes another user"
)


@contextmanager
def small_memory(megabytes: int) -> Iterator[Path]:
    """A memory group with that limit, inside our own: the file of its processes, for whoever is to
    be in it (cgroups(7))."""
    folder = Path(memory.nearest()).with_name(f"gpulayer-test-{os.getpid()}")
    folder.mkdir()
    limits = [name for name in ("memory.limit_in_bytes", "memory.max") if (folder / name).exists()]
    try:
        (folder / limits[0]).write_text(str(megabytes << 20))
        yield folder / "cgroup.procs"
    finally:
        folder.rmdir()


class SmallDisk:
    """A file system of its own at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """To the last block."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                while _write(file.fileno(), size):
                    pass

    def empty(self) -> None:
        self._ballast.unlink()

    def remount(self, how: str) -> None:
        """`ro` or `rw`."""
        subprocess.run(["mount", "-o", f"remount,{how}", "tmpfs", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path, megabytes: int = 6) -> Iterator[SmallDisk]:
    """Mounted for this process and those that it starts, until the end of the context; nobody
    else sees it (mount_namespaces(7))."""
    libc = ctypes.CDLL(None, use_errno=True)
    outside = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    try:
        _check(libc.unshare(_NEW_MOUNTS))
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        path.mkdir(mode=0o700, exist_ok=True)
        options = f"size={megabytes}m,mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)
        yield SmallDisk(path)
    finally:
        _check(libc.setns(outside, _NEW_MOUNTS))
        os.close(outside)


def delete(folder: Path) -> None:
    """Remove it while others work in it, who may add a file that a first look did not see."""
    while os.path.lexists(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _write(fd: int, size: int) -> bool:
    try:
        return os.write(fd, b"\0" * size) > 0
    except OSError:
        return False


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


NOBODY = 65_534


def as_nobody(act: Callable[[], object]) -> bool:
    """Whether a process of another user may do that; `OSError` means no."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            act()
            os._exit(0)
        except OSError:
            os._exit(1)
        finally:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1), "it failed in another way"
    return code == 0
