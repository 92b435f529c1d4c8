"""One task's container: its name, its options, and the file that `runtime.container_shim` reads.

It sees what the job would see as a plain command, where that has a meaning inside an image: the
same folders at the same paths, the same user, the network and the shared memory of the machine. Of
environments it has the image's own, and what the job is told by name. An image's entrypoint is not
run: the command is the command.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpulayer.errors import PreparationError
from gpulayer.worker.images.engine import Engine
from gpulayer.worker.images.trying import Found

HOME_LABEL, TASK_LABEL = "gpulayer.home", "gpulayer.task"
PLAN = "container"
"""The file in a task's folder from which its container is made, and entered."""
_RUNTIME = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "runtime"))
_SHIM = os.path.join(_RUNTIME, "container_shim.py")
_VISIT = os.path.join(_RUNTIME, "container_visit.py")


@dataclass(frozen=True, slots=True)
class Box:
    """What a container is made of."""

    name: str
    labels: Mapping[str, str]
    folders: Sequence[str]
    """Seen inside where they are outside."""
    cwd: str
    gpus: Sequence[str] = ()
    memory_gb: float | None = None
    cpu_cores: float | None = None


def home_of(tasks: str) -> str:
    """One worker's name among all of this machine."""
    return hashlib.sha256(os.fsencode(os.path.realpath(tasks))).hexdigest()[:12]


def name_of(tasks: str, task_id: str, fence: int) -> str:
    return f"gpulayer-{home_of(tasks)}-{task_id}-{fence}"


def options_of(box: Box, engine: Engine) -> list[str]:
    """Less name, labels and limits. Raises `image-failed` for a folder that cannot be named."""
    uid, gid = os.geteuid(), os.getegid()
    options = [
        "--network", "host", *_shared(engine, uid), "--user", f"{uid}:{gid}", "--workdir", box.cwd,
        "--entrypoint", "", "--log-driver", "none", "--security-opt", "label=disable",
        *_no_limit(engine, uid),
    ]  # fmt: skip
    if engine.is_podman and uid != 0:
        options += ["--userns", "keep-id"]
    for folder in outermost(box.folders):
        options += _mount(folder)
    return [*options, *_devices(box.gpus, engine)]


def limits_of(box: Box) -> list[str]:
    """Of memory and cores, where the job has named some."""
    found = []
    if box.memory_gb is not None:
        found += ["--memory", f"{round(box.memory_gb * 1e9)}b"]
    if box.cpu_cores is not None:
        found += ["--cpus", f"{box.cpu_cores:g}"]
    return found


def plan_of(
    box: Box,
    engine: Engine,
    image: str,
    command: Sequence[str],
    names: Iterable[str],
    found: Found,
    pidfile: str,
) -> dict[str, Any]:
    """What the shim is told. `names` are the variables that the job is given."""
    options = ["--name", box.name, "--pull", "never", "--rm"]
    if engine.is_podman:
        options += ["--pidfile", pidfile, "--stop-timeout", "0"]
    for key, value in box.labels.items():
        options += ["--label", f"{key}={value}"]
    limits = limits_of(box) if found.has_groups else []
    return {
        "engine": engine.name,
        "program": engine.program,
        "environ": dict(engine.environ),
        "names": list(names),
        "options": [*options, *options_of(box, engine), *limits, *found.ulimits],
        "image": image,
        "command": list(command),
        "name": box.name,
        "ender": engine.ender(box.name),
        "pidfile": pidfile if engine.is_podman else "",
    }


def write(path: str, plan: Mapping[str, Any]) -> list[str]:
    """The words that run it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        marshal.dump(dict(plan), file)
    return [sys.executable, "-I", "-S", _SHIM, path]


def entering(
    task_folder: str, visit: str, command: Sequence[str], variables: Mapping[str, str]
) -> tuple[list[str], str] | None:
    """The words that bring a command into a task's container, and the mark of its processes. None:
    the task has none. `visit` is a name that no other visit has."""
    plan = os.path.join(task_folder, PLAN)
    if not os.path.exists(plan):
        return None
    mark = f"GPULAYER_VISIT={hashlib.sha256(visit.encode()).hexdigest()[:16]}"
    setting = "\n".join(f"{name}={value}" for name, value in variables.items())
    return [sys.executable, "-I", "-S", _VISIT, plan, mark, setting, *command], mark


def outermost(folders: Iterable[str]) -> list[str]:
    """Each once, less those that lie in another one."""
    kept: list[str] = []
    for folder in sorted(set(folders), key=lambda path: (len(path), path)):
        if not any(folder == other or folder.startswith(f"{other}/") for other in kept):
            kept.append(folder)
    return kept


def _mount(folder: str) -> list[str]:
    if ":" not in folder:
        return ["--volume", f"{folder}:{folder}"]
    if any(sign in folder for sign in ',"\n'):
        raise PreparationError(
            "image-failed",
            f"the folder {folder} cannot be named to an engine",
            why="its name has a colon and a comma, a quote or a line break",
            hint="mv",
        )
    return ["--mount", f"type=bind,source={folder},target={folder}"]


def _no_limit(engine: Engine, uid: int) -> list[str]:
    """Of processes. Podman without root's rights has none on cgroup v1, and says so in the job's
    output where it is told to have none."""
    if engine.is_podman and uid != 0 and not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return []
    return ["--pids-limit", "-1"]


def _shared(engine: Engine, uid: int) -> list[str]:
    """The machine's own. Podman without root's rights takes message queues along, and fails where
    the machine has none."""
    if engine.is_podman and uid != 0 and not os.path.exists("/dev/mqueue"):
        return ["--volume", "/dev/shm:/dev/shm"]  # noqa: S108  the machine's
    return ["--ipc", "host"]


def _devices(gpus: Sequence[str], engine: Engine) -> list[str]:
    """By the Container Device Interface. Docker before 25 knows it under its own option alone."""
    if not gpus:
        return []
    if not engine.is_podman and _major(engine.version) < 25:
        return ["--gpus", f'"device={",".join(gpus)}"']
    return [word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]


def _major(version: str) -> int:
    digits = version.partition(".")[0]
    return int(digits) if digits.isdigit() else 0
