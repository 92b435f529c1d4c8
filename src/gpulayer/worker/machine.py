"""What this machine has, told in steps: at once what costs nothing, then drivers and Pythons.

Nothing here waits for a driver before the worker may register: what is not known yet is reported
as not known, and a job that needs it waits.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from gpulayer.contracts.capabilities import Interpreter, WorkerCapabilities
from gpulayer.gpu.discovery import discover_fast, discover_gpus, with_gpus
from gpulayer.gpu.frameworks import Drivers
from gpulayer.gpu.interpreters import describe, find_interpreters
from gpulayer.gpu.machine import Machine
from gpulayer.worker.images.engine import Engines

_REAL = "import sys; print(sys.executable)"
_PROBE_SECONDS = 10.0
_FENCE = b"GPULAYER_FENCE="


class ThisMachine:
    """Thread-safe."""

    def __init__(
        self,
        folder: str,
        environ: Mapping[str, str] | None = None,
        python: str = "",
        data: Iterable[str] = (),
        secrets: tuple[str, ...] | None = (),
        engines: Engines | None = None,
    ) -> None:
        """`folder` is where workspaces are made, `python` the worker's own; empty: this one. `data`
        are the names of its data sets, `secrets` those that it gives, `engines` what may run
        images."""
        self._machine = Machine(environ=dict(os.environ if environ is None else environ))
        self._lock = Lock()
        self._chosen = python if python != sys.executable else ""
        self._known = dataclasses.replace(
            discover_fast(self._machine, workspace=Path(folder)),
            interpreters=(_own(python),),
            data=tuple(sorted(data)),
            secrets=secrets,
            streams=True,
            stacks=True,
            enters_images=True,
            errands=True,
            takes_ahead=True,
            takes_runs=True,
        )
        self._engines = engines
        if engines is None or not engines.programs:
            self._known = dataclasses.replace(self._known, containers="", containers_note="neither")
        self._has_sign = self._known.gpus is None

    @property
    def known(self) -> WorkerCapabilities:
        return self._known

    def at_once(self) -> dict[str, Any]:
        """What is known without asking anybody."""
        return self._known.to_json()

    def gives(self, secrets: tuple[str, ...] | None) -> bool:
        """Its secrets are these from now on. False: they were before."""
        with self._lock:
            is_new = secrets != self._known.secrets
            self._known = dataclasses.replace(self._known, secrets=secrets)
        return is_new

    @property
    def has_drivers(self) -> bool:
        """Whether there is somebody whom it is worth asking about GPUs, again and again: a device
        falls ill, and a foreign process comes and goes."""
        return self._has_sign

    @property
    def asks_again(self) -> bool:
        """The same, and whether an engine for images may answer later: its daemon may be down."""
        return self._has_sign or (
            self._engines is not None
            and bool(self._engines.programs)
            and self._engines.known is None
        )

    def ask(self, told: Callable[[dict[str, Any]], None]) -> None:
        """Ask the drivers and look for Pythons; `told` after each. Takes seconds at most."""
        if self.has_drivers:
            report = discover_gpus(self._machine, _pids_of_jobs())
            with self._lock:
                self._known = with_gpus(self._known, report)
            told(self.at_once())
        if self._look_for_engine():
            told(self.at_once())
        if self._chosen:
            self._add([self._look_at(self._chosen)])
        found = find_interpreters(
            self._machine.environ, run=self._machine.run, drivers=Drivers.of(self._known)
        )
        if found:
            self._add(found)
            told(self.at_once())

    def _look_for_engine(self) -> bool:
        """Whether there is news of it."""
        if self._engines is None or not self._engines.programs or self._known.containers:
            return False
        found = self._engines.find()
        with self._lock:
            before = self._known
            name, note = ("", self._engines.note) if found is None else (found.name, "")
            self._known = dataclasses.replace(before, containers=name, containers_note=note)
            return self._known != before

    def probe(self, paths: Iterable[str]) -> dict[str, Any]:
        """Look at these interpreters too; everything that is known then. One that is none has no
        version and no packages."""
        self._add([self._look_at(path) for path in paths])
        return self.at_once()

    def _look_at(self, path: str) -> Interpreter:
        drivers = Drivers.of(self._known)
        found = describe(path, run=self._machine.run, drivers=drivers)
        if found.version is None:  # a shim, perhaps: it knows which Python it would start
            real = self._machine.run([path, "-I", "-c", _REAL], _PROBE_SECONDS)
            if real.ok:
                found = describe(real.out.strip(), run=self._machine.run, drivers=drivers)
        return Interpreter(path, found.version, found.frameworks or {})

    def _add(self, found: Iterable[Interpreter]) -> None:
        """What was found first stays first: it is the worker's own choice."""
        with self._lock:
            known = {i.path: i for i in self._known.interpreters if i.frameworks is not None}
            known |= {i.path: i for i in found}
            self._known = dataclasses.replace(self._known, interpreters=tuple(known.values()))


def _own(python: str) -> Interpreter:
    """Known at once; another one than ours is looked at with all others."""
    if python and python != sys.executable:
        return Interpreter(python, None)
    return Interpreter(sys.executable, sys.version.split()[0])


def _pids_of_jobs() -> list[int]:
    """Processes of tasks, of whichever plane: they carry their fence. Those that cleared their
    environment are taken for foreign ones."""
    from gpulayer.runtime.processes import environments  # only a machine with GPUs pays for it

    return [
        pid for pid, entries in environments() if any(entry.startswith(_FENCE) for entry in entries)
    ]
