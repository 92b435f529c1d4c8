"""What a process that holds a credential does first, so that no other process reads it from there.

Not dumpable: no core file, no ptrace, and /proc/PID/mem and environ are root's alone (prctl(2),
PR_SET_DUMPABLE). Where the system has no prctl, the limit on core files holds still. Jobs of the
same user can read that user's files; this is no sandbox.
"""

from __future__ import annotations

import os
import resource
import sys

_PR_SET_DUMPABLE = 4


def harden() -> None:
    """Twice-safe."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
