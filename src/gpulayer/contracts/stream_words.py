"""What the two sides of a stream into a job say to each other: visitor and worker.

Frames as in `runtime.frames`, over the bodies of one exchange that each side has with the plane.

    visitor   I   bytes for the command's standard input, or for the connection; none: its end
              J   {"op": "signal", signum} | {"op": "winsize", rows, cols} | {"op": "ping"} |
                  {"op": "closed", stream}: nobody reads that output any more
    worker    1 2 T   output; an empty 1 is a connection's half end
              J   {"event": "started", pid, cwd, argv (without secrets)}
                  {"event": "took", bytes}: so many of those that came as `I` are out of its hands
                  {"event": "ended", exit_code, signal, code, message, argv, task_over, refused}
                  {"event": "ping"}
    plane     J   {"event": "lost", message}, in place of what the worker would have said

A visitor has at most `WINDOW_BYTES` of input under way, so that a signal never waits behind it.
"""

from __future__ import annotations

from typing import Final

WINDOW_BYTES: Final = 256 << 10
PIECE: Final = 1 << 16
PING_SECONDS: Final = 10.0
"""A plane ends a stranger's connection that says nothing for half a minute."""
