"""In what a task runs: machine, devices and driver, Python, packages. One document for all tasks
that have it alike, kept as an artifact, so that each names it by 64 characters.

It says nothing of the job itself, and nothing of any environment variable.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.gpu.installed import packages, stamp, version_and_folders
from gpulayer.worker.steps.plan import TaskPlan

_Home = tuple[str | None, tuple[Path, ...] | None]
_MOST = 256
"""Documents that are remembered."""


class Worlds:
    """Thread-safe."""

    def __init__(self, worker: str, machine: Callable[[], WorkerCapabilities]) -> None:
        """`machine` tells what is known of it now."""
        self._worker = worker
        self._machine = machine
        self._homes: dict[tuple[str, str | None], _Home] = {}
        self._known: dict[tuple[object, ...], str] = {}
        self._untold: dict[str, bytes] = {}
        self._seen: WorkerCapabilities | None = None
        """What is known holds for this one."""
        self._lock = Lock()

    def of(self, task: TaskPlan) -> str:
        """The digest of its world, once its steps are done. Costs a look at a few folders where
        nothing has changed since a task like it."""
        machine, layer = self._machine(), _layer(task.python)
        path, version = self._python(task, machine)
        homes = [self._home(path, version)] if task.image is None else []
        if layer:
            homes.append(self._home(str(task.python), None))
        stamps = [stamp(folder) for _, folders in homes for folder in folders or ()]
        gpus = task.assignment.gpus
        key = (path, version, layer, gpus, task.image is None, tuple(stamps))
        with self._lock:
            if machine is not self._seen or len(self._known) >= _MOST:
                self._known.clear()
                self._seen = machine
            digest = self._known.get(key)
            if digest is None:
                told = {"worker": self._worker, **_of_machine(machine, gpus)}
                if homes:
                    told["python"] = {"path": path, **_of_python(*homes[0])}
                if layer:
                    told["environment"] = {"key": layer, **_of_python(*homes[1])}
                if task.image is not None:
                    told["engine"] = machine.containers
                text = json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
                digest = hashlib.sha256(text).hexdigest()
                self._known[key], self._untold[digest] = digest, text
            return digest

    def tell(self, digest: str, put: Callable[[list[tuple[str, bytes]]], None]) -> None:
        """Have it stored, once. Raises what `put` does; the next task that has it tries again."""
        text = self._untold.get(digest)
        if text is not None:
            put([(digest, text)])
            self._untold.pop(digest, None)

    def is_told(self, digest: str) -> bool:
        return digest not in self._untold

    def _python(self, task: TaskPlan, machine: WorkerCapabilities) -> tuple[str, str | None]:
        chosen = task.assignment.origin.get("interpreter") or {}
        path = str(chosen.get("path") or task.interpreter)
        if chosen.get("version"):
            return path, str(chosen["version"])
        return path, next((i.version for i in machine.interpreters if i.path == path), None)

    def _home(self, path: str, version: str | None) -> _Home:
        if (path, version) not in self._homes:
            home = Path(os.path.expanduser("~"))
            self._homes[path, version] = version_and_folders(path, version, home)
        return self._homes[path, version]


def _layer(python: str | None) -> str:
    """The key of the environment that was prepared for a task; see `environments.store`."""
    return "" if python is None else os.path.basename(os.path.dirname(os.path.dirname(python)))


def _of_python(version: str | None, folders: tuple[Path, ...] | None) -> dict[str, Any]:
    return {"version": version, "packages": None if folders is None else packages(folders)}


def _of_machine(machine: WorkerCapabilities, gpus: tuple[str, ...]) -> Mapping[str, Any]:
    held = [gpu for gpu in machine.gpus or () if gpu.uuid in gpus]
    drivers = {"driver": machine.driver_version, "cuda": machine.cuda_version} if held else {}
    return {
        "host": machine.hostname,
        "os": machine.os,
        "kernel": platform.release(),
        "cpu_arch": machine.cpu_arch,
        "gpulayer": machine.version,
        "gpus": [{"uuid": g.uuid, "name": g.name, "memory_gb": g.memory_gb} for g in held],
        **drivers,
    }
