"""Starts the ranks of a node itself, without torchrun: `launcher: direct`. Part of `node_shim`.

The standard library and its neighbour `rank_shim` alone, any Python from 3.8 up. Each rank has its
shim as under torchrun, which here is forked and not started anew: no interpreter begins but that of
the rank. The first rank that ends badly has the others end at once, each within the grace of its
shim.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpulayer.runtime import rank_shim
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    import rank_shim  # beside this file, wherever that is

_BROKEN = 125


def run(ranks: list[dict[str, str]], folder: str, environ: dict[str, str]) -> int:
    """Until all have ended: 0, or 1 where one ended badly. `ranks`: the variables of each. Signals
    to this process's group reach the shims, which are in it. Once, and from the main thread."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, rank_shim.PASSED_ON)
    living = set()
    for variables in ranks:
        pid = os.fork()
        if pid == 0:
            _become_shim(folder, {**environ, **variables}, held)
        living.add(pid)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    failed = False
    while living:
        pid, status = os.wait()
        if pid not in living:
            continue
        living.remove(pid)
        if status and not failed:
            failed = True
            for other in living:
                os.kill(other, signal.SIGTERM)
    return int(failed)


def _become_shim(folder: str, environ: dict[str, str], held: Any) -> None:
    """A signal that comes before the rank is there ends it, as it would end any process."""
    try:
        for signum in rank_shim.PASSED_ON:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        os.environ.clear()
        os.environ.update(environ)
        rank_shim.lead(folder)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(_BROKEN)
