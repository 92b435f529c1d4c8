"""What a template has imported, and what that did to its process.

Loaded by `zygote` from beside it, under any Python from 3.8 up.
"""

from __future__ import annotations

import _warnings
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


class State:
    """What an import may have changed besides `sys.modules`, and a script must find unchanged."""

    def __init__(self) -> None:
        import _signal  # type: ignore[import-not-found]

        self._before = self._now(_signal)
        self._filters = list(_warnings.filters)

    def look(self) -> list[Any]:
        """The filters of warnings that imports added, taken back. Unsafe where there is more."""
        import _signal

        now = dict(self._now(_signal))
        for what, before in self._before:
            if before != now[what]:
                raise Unsafe("an import changed {}".format(what))
        filters = _warnings.filters
        added = len(filters) - len(self._filters)
        if added < 0 or filters[added:] != self._filters:
            raise Unsafe("an import changed the filters of warnings")
        found = filters[:added]
        self._set(filters[added:])
        return found

    def give(self, filters: list[Any]) -> None:
        self._set([*filters, *_warnings.filters])

    def _set(self, filters: list[Any]) -> None:
        _warnings.filters[:] = filters
        for name in ("_filters_mutated", "_filters_mutated_lock_held"):
            if hasattr(_warnings, name):
                getattr(_warnings, name)()
                return

    def _now(self, signals: Any) -> list[tuple[str, Any]]:
        numbers = range(1, signals.NSIG)
        return [
            ("sys.meta_path", list(sys.meta_path)),
            ("sys.path_hooks", list(sys.path_hooks)),
            ("a hook of sys", [sys.excepthook, sys.displayhook, sys.unraisablehook]),
            ("a limit of the interpreter", [sys.getrecursionlimit(), sys.getswitchinterval()]),
            ("builtins", list(vars(sys.modules["builtins"]))),
            ("a signal's handler", [signals.getsignal(n) for n in numbers if n not in (32, 33)]),
        ]


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


def is_standard(path: str) -> bool:
    """Whether a file or a folder is of the standard library."""
    folder = os.path.dirname(os.path.realpath(os.__file__))
    real = os.path.realpath(path)
    return (real + os.sep).startswith(folder + os.sep) and not any(
        part in real for part in _INSTALLED
    )


def files_of(modules: list[Any]) -> dict[str, object]:
    """What tells that something else would be imported now: the folders of `sys.path`, and each
    file that lies elsewhere."""
    folders = [path for path in sys.path if os.path.isdir(path) and not is_standard(path)]
    found = {path: identity(path) for path in folders}
    installed = tuple(f + os.sep for f in folders if os.path.basename(f) in _INSTALLED)
    for module in modules:
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and not path.startswith(installed) and not is_standard(path):
            found[path] = identity(path)
    return found


def identity(path: str) -> object:
    try:
        at = os.stat(path)
    except OSError:
        return None
    return at.st_dev, at.st_ino, at.st_mtime_ns, at.st_size


def identity_text(path: str) -> str:
    """The same, as a task says it of a script's files."""
    found: Any = identity(path)
    return ":".join(map(str, found or ()))


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
        with open("/proc/self/smaps_rollup", encoding="utf-8") as file:
            shares = [int(line.split()[1]) for line in file if line.startswith("Pss:")]
        return shares[0] * 1024
    except (OSError, IndexError, ValueError):
        return 0


def reseed(modules: dict[str, Any]) -> None:
    """What two children must not share; `random`, `uuid` and `tempfile` see to themselves."""
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    generator = getattr(modules.get("torch"), "default_generator", None)
    if generator is not None:
        generator.seed()
    process = modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)
        process.ORIGINAL_DIR = os.getcwd()


def forget_listings() -> None:
    """`importlib.invalidate_caches`, which would import `importlib.metadata` from 3.13 on."""
    for path, finder in list(sys.path_importer_cache.items()):
        if finder is None:
            del sys.path_importer_cache[path]
        elif hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()
    spaces: Any = getattr(sys.modules["_frozen_importlib_external"], "_NamespacePath", None)
    if hasattr(spaces, "_epoch"):
        spaces._epoch += 1


def keep_finalizers() -> None:
    """What imports left to be done at the end of the process is the template's, not a child's: a
    folder for all would be removed by the first, and torch takes its operators apart there."""
    finalize = getattr(sys.modules.get("weakref"), "finalize", None)
    for finalizer in getattr(finalize, "_registry", ()):
        finalizer.atexit = False
