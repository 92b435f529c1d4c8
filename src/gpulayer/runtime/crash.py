"""Named instants at which a test may have a process of ours die, as by SIGKILL from outside.

`GPULAYER_CRASH_AT=NAME=FILE` names the point and a file; whoever comes to the point and can delete
the file dies there, so each such variable kills once. Without the variable a point costs nothing.
Each row of the table 'what dies, what happens' is tried with one of these.
"""

from __future__ import annotations

import os
import signal

_NAME, _, _FILE = os.environ.get("GPULAYER_CRASH_AT", "").partition("=")

is_armed = bool(_NAME)


def point(name: str) -> None:
    """Die here, if this is the point that was asked for."""
    if name == _NAME:
        try:
            os.unlink(_FILE)
        except OSError:
            return  # somebody was here before
        os.kill(os.getpid(), signal.SIGKILL)
