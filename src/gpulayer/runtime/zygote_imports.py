"""What a template has imported, and what that did to its process.

Loaded by `zygote` from beside it, under any Python from 3.8 up.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OPENBLAS = b"OPENBLAS_NUM_THREADS"
_COUNTS = (OPENBLAS, b"GOTO_NUM_THREADS", b"OMP_NUM_THREADS")
"""What OpenBLAS asks for the count of its threads, in this order."""

_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri")
_INSTALLED = ("site-packages", "dist-packages")


class Unsafe(Exception):
    """Why no child may be forked from this process."""


def require_safe(own: tuple[int, ...], watched: dict[str, object], names: str) -> None:
    """Unsafe where a fork of this process would not be like a fresh start, now. `own` are
    descriptors that are no import's, `watched` is from `files_of`."""
    threads = len(os.listdir("/proc/self/task")) - 1
    if threads:
        raise Unsafe("{} thread(s) run after importing {}".format(threads, names))
    for what, number in descriptors():
        if what.startswith(_DEVICES):
            raise Unsafe("a GPU was opened while importing")
        if number not in own and what.startswith(("socket:", "anon_inode:")):
            raise Unsafe("a connection was left open while importing")
    if sys.gettrace() is not None or sys.getprofile() is not None:
        raise Unsafe("a tracer or profiler is active")
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        raise Unsafe("an import put something in the place of standard output")
    for path, known in watched.items():
        if identity(path) != known:
            raise Unsafe("{} has changed".format(path))


def changes(
    before: dict[bytes, bytes], after: dict[bytes, bytes]
) -> list[tuple[bytes, bytes | None]]:
    names = {name for name in (*before, *after) if before.get(name) != after.get(name)}
    return [(name, after.get(name)) for name in sorted(names - {OPENBLAS})]


def thread_count() -> int:
    for name in _COUNTS:
        said = os.environb.get(name, b"")
        if said.isdigit() and int(said):
            return int(said)
    return len(os.sched_getaffinity(0))


def openblas_setters(ctypes: Any) -> list[Any]:
    """The functions that set the count of threads, of each OpenBLAS that is loaded."""
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        paths = {line[line.index("/") :].rstrip("\n") for line in file if "openblas" in line}
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for prefix in ("", "scipy_"):
            for suffix in ("", "64_"):  # with one more underscore it takes a pointer
                name = "{}openblas_set_num_threads{}".format(prefix, suffix)
                if hasattr(library, name):
                    found.append(getattr(library, name))
    if len(found) < len(paths):
        raise Unsafe("a loaded OpenBLAS has no switch for its threads")
    return found


def files_of(modules: list[Any]) -> dict[str, object]:
    """What tells that something else would be imported now: the folders that packages are
    installed in, and each file that lies elsewhere."""
    standard = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
    folders = [path for path in sys.path if os.path.basename(path) in _INSTALLED]
    found = {path: identity(path) for path in folders}
    for module in modules:
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or path.startswith(tuple(f + os.sep for f in folders)):
            continue
        if not os.path.realpath(path).startswith(standard):
            found[path] = identity(path)
    return found


def identity(path: str) -> object:
    try:
        at = os.stat(path)
    except OSError:
        return None
    return at.st_dev, at.st_ino, at.st_mtime_ns, at.st_size


def descriptors() -> list[tuple[str, int]]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append((os.readlink("/proc/self/fd/" + name), int(name)))
        except OSError:
            pass  # the listing's own
    return found


def own_bytes() -> int:
    """Memory that is this process's share."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            shares = [int(line.split()[1]) for line in file if line.startswith("Pss:")]
        return shares[0] * 1024
    except (OSError, IndexError, ValueError):
        return 0


def reseed() -> None:
    """What two children must not share; `random`, `uuid` and `tempfile` see to themselves."""
    modules = sys.modules
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    generator = getattr(modules.get("torch"), "default_generator", None)
    if generator is not None:
        generator.seed()
    process = modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)
        process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
