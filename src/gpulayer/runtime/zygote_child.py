"""What makes of a forked child the process that its own start would have given, and how it ends.

Loaded by `zygote` from beside it, under any Python from 3.8 up.
"""

from __future__ import annotations

import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def set_environ(entries: list[tuple[bytes, bytes]]) -> None:
    """The whole environment, in this order."""
    for name in list(os.environb):
        del os.environb[name]
    for name, value in entries:
        os.environb[name] = value


def open_streams() -> None:
    """Standard streams as the interpreter makes them (pylifecycle.c, create_stdio)."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        mode = "w" if number else "r"
        raw: Any = io.FileIO(number, mode, closefd=False)
        raw.name = "<{}>".format(name)
        at_once = old.write_through  # python -u
        buffer: Any = raw
        if number == 0 or not at_once:
            size = os.fstat(number).st_blksize
            size = size if size > 1 else io.DEFAULT_BUFFER_SIZE
            buffer = (io.BufferedWriter if number else io.BufferedReader)(raw, size)
        stream = io.TextIOWrapper(
            buffer,
            old.encoding,
            old.errors,
            "\n",
            not at_once and (raw.isatty() or old.line_buffering),
            at_once,
        )
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, "__{}__".format(name), stream)


def leave(stop: SystemExit, modules: list[str]) -> None:
    """The end of the interpreter without taking apart what was preloaded, which takes most of the
    time: threads are waited for, calls at exit made, `modules` let go of, streams flushed."""
    import atexit
    import ctypes

    code = 0
    if isinstance(stop.code, int):
        code = stop.code & 0xFF
    elif stop.code is not None:
        code = 1
        sys.stderr.write("{}\n".format(stop.code))
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    stop.__traceback__ = stop.__context__ = None
    for name in modules:
        del sys.modules[name]
    gc.collect()  # what they held ends before the process
    for stream, counts in ((sys.stdout, True), (sys.stderr, False)):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            code = 120 if counts else code
    ctypes.CDLL(None).fflush(None)
    os._exit(code)
