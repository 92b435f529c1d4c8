"""The command line as a process of its own: short, so nothing is collected while it starts and
nothing is torn down when it ends. Both together are a fifth of what `gpulayer --help` would cost.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Does not return. Ends with the exit code of `cli.main`, its output flushed."""
    gc.disable()
    from gpulayer.cli.main import main as run

    gc.enable()
    try:
        run()
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # the reader left, or it was closed
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
