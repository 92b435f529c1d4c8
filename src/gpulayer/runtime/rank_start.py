"""What a rank does before its own code: it lets others see its stacks, and keeps its last error.

The standard library alone, any Python from 3.8 up. `stacks` reads what is made here:

    FOLDER/<pid>.stack      where the interpreter writes its threads when `SIGNAL` comes; open for
                            as long as the process, and the children that it forks, live
    FOLDER/<rank>.raised    {"error": ...}: what ended the rank, as `failures.described` has it
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types

FOLDER, PATH = "GPULAYER_RANK_FOLDER", "GPULAYER_RANK_PYTHONPATH"
"""Variables from the shim, gone before the rank's own code begins."""
SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rank_site")
SUFFIX = ".stack"
SIGNAL = 47
"""Of Linux's real-time ones, from the middle: neither glibc's own nor first in anybody's mind."""
_HIGH = 200
"""Descriptors of a program are lower, and stay those that it would have had."""


def environ(folder: str, given: dict[str, str]) -> dict[str, str]:
    """`given`, so that a Python that begins with it comes here first."""
    path = given.get("PYTHONPATH")
    made = {**given, FOLDER: folder, "PYTHONPATH": SITE + (os.pathsep + path if path else "")}
    return made if path is None else {**made, PATH: path}


def begin() -> None:
    """In the site phase."""
    folder, path = os.environ.pop(FOLDER, None), os.environ.pop(PATH, None)
    del os.environ["PYTHONPATH"]
    if path is not None:
        os.environ["PYTHONPATH"] = path
    if folder is not None:
        _show_stacks(folder)
        _keep_last_error(os.path.join(folder, "{}.raised".format(os.environ.get("RANK"))))


def _show_stacks(folder: str) -> None:
    """A signal has the interpreter write its stacks, also where it waits in C for ever. A call of
    the system that it interrupts is taken up again (SA_RESTART)."""
    if sys.platform != "linux":
        return
    import faulthandler
    import fcntl

    path = os.path.join(folder, str(os.getpid()) + SUFFIX)
    try:
        low = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC, 0o600
        )
    except OSError:
        return
    try:
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        faulthandler.register(SIGNAL, fd, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError):
        pass
    finally:
        os.close(low)


def _keep_last_error(path: str) -> None:
    pid = os.getpid()

    def hook(
        kind: type[BaseException], error: BaseException, where: types.TracebackType | None
    ) -> None:
        if os.getpid() == pid:
            try:
                _write(path, error)
            except Exception:
                pass  # it is shown below all the same
        sys.__excepthook__(kind, error, where)

    sys.excepthook = hook


def _write(path: str, error: BaseException) -> None:
    import importlib.util
    import json

    name = os.path.join(os.path.dirname(SITE), "failures.py")
    spec = importlib.util.spec_from_file_location("_gpulayer_failures", name)
    assert spec is not None
    assert spec.loader is not None
    failures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(failures)
    text = json.dumps({"error": failures.described("job-failed", error, False)})
    with open(path + ".part", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(path + ".part", path)
