"""What this machine has, told in steps: at once what costs nothing, then drivers and Pythons.

Nothing here waits for a driver before the worker may register: what is not known yet is reported
as not known, and a job that needs it waits.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpulayer.contracts.capabilities import Interpreter, WorkerCapabilities
from gpulayer.gpu.discovery import discover_fast, discover_gpus, with_gpus
from gpulayer.gpu.frameworks import Drivers
from gpulayer.gpu.interpreters import find_interpreters
from gpulayer.gpu.machine import Machine


class ThisMachine:
    """Not for two threads at once."""

    def __init__(self, folder: str, environ: Mapping[str, str] | None = None) -> None:
        """`folder` is where workspaces are made."""
        self._machine = Machine(environ=dict(os.environ if environ is None else environ))
        self._known = dataclasses.replace(
            discover_fast(self._machine, workspace=Path(folder)),
            interpreters=(Interpreter(sys.executable, sys.version.split()[0]),),
        )

    def at_once(self) -> dict[str, Any]:
        """What is known without asking anybody."""
        return self._known.to_json()

    def ask(self, told: Callable[[dict[str, Any]], None]) -> None:
        """Ask the drivers and look for Pythons; `told` after each. Takes seconds at most."""
        if self._known.gpus is None:
            self._known = with_gpus(self._known, discover_gpus(self._machine))
            told(self.at_once())
        found = find_interpreters(
            self._machine.environ, run=self._machine.run, drivers=Drivers.of(self._known)
        )
        if found:
            self._known = self._with(found)
            told(self.at_once())

    def _with(self, interpreters: tuple[Interpreter, ...]) -> WorkerCapabilities:
        return dataclasses.replace(self._known, interpreters=interpreters)
