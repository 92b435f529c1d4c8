"""Ending containers that a worker of this home left behind: made, and never begun or forgotten.

A container that runs is ended by its supervisor before its task is over. What is found here is what
an engine's client was killed in the middle of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container

from gpulayer.worker.images.container import HOME_LABEL, TASK_LABEL, home_of
from gpulayer.worker.images.engine import Engines

_FORMAT = '{{.Names}} {{.Label "' + TASK_LABEL + '"}}'


def sweep(engines: Engines, tasks: str, held: Callable[[], Container[str]]) -> list[str]:
    """Their names. `held` gives the tasks that there are, and is asked after the containers were
    listed: a task is known before its container is made. Nothing is asked of an engine that no job
    of this home has used."""
    engine = engines.known
    if engine is None or not os.path.isdir(os.path.join(os.path.dirname(tasks), "images")):
        return []
    wanted = f"label={HOME_LABEL}={home_of(tasks)}"
    listed = engine.answer("ps", "--all", "--filter", wanted, "--format", _FORMAT)
    if not listed.ok:
        return []
    known = held()
    gone = []
    for line in listed.out.splitlines():
        name, _, task = line.partition(" ")
        if name and task not in known:
            engine.ask(engine.ender(name), 60.0)
            gone.append(name)
    return gone
