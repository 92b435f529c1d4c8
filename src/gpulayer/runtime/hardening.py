"""What a process that holds a credential does first, so that it is not read from outside.

No other process of the same user may attach to it or read its memory and environment
(PR_SET_DUMPABLE, prctl(2)), it leaves no core (RLIMIT_CORE, setrlimit(2)), and what it writes is
its owner's. A program that it starts begins dumpable again (execve(2)); the limit and the mask are
inherited, so whoever starts jobs sets those of the job.

Where there is no prctl the rest is done. Standard library alone.
"""

from __future__ import annotations

import os
import sys

PR_SET_DUMPABLE = 4


def harden() -> None:
    """Twice-safe. Never raises: a system that refuses is no worse off than before."""
    os.umask(0o077)
    _no_core()
    if sys.platform.startswith("linux"):
        _not_dumpable()


def _no_core() -> None:
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (OSError, ValueError):
        pass


def _not_dumpable() -> None:
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass
