"""Podman or Docker: which of the two answers on this machine, and the words of its commands.

Each question is asked in a process of its own with a deadline, so an engine that hangs holds up
nobody. Podman comes first, since it needs no daemon; `GPULAYER_ENGINE` chooses.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from gpulayer.gpu.machine import Completed, Programs

CHOICE = "GPULAYER_ENGINE"
KINDS = ("podman", "docker")
PROBE_SECONDS = 10.0
ASK_SECONDS = 60.0

_NAMES = frozenset(
    "PATH HOME USER LOGNAME LANG TMPDIR DBUS_SESSION_BUS_ADDRESS REGISTRY_AUTH_FILE "
    "SSL_CERT_FILE SSL_CERT_DIR".split()
)
_PREFIXES = ("XDG_", "DOCKER_", "CONTAINER")
PROXIES = tuple(
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy".split()
)
_REMOVED = (
    '"$0" rm --force "$1" || { left=$("$0" ps --all --quiet --filter "name=$1") && '
    'test -z "$left"; }'
)
_FAR = ("tcp:", "ssh:", "http:", "https:")


@dataclass(frozen=True, slots=True)
class Engine:
    """One that answered."""

    kind: str
    program: str
    version: str
    environ: Mapping[str, str]
    """Of its commands: what of the worker's environment concerns it."""
    ask: Programs

    @property
    def name(self) -> str:
        return f"{self.kind} {self.version}"

    @property
    def is_podman(self) -> bool:
        return self.kind == "podman"

    def words(self, *words: str) -> list[str]:
        return [self.program, *words]

    def answer(self, *words: str, seconds: float = ASK_SECONDS) -> Completed:
        return self.ask(self.words(*words), seconds)

    def ender(self, name: str) -> list[str]:
        """The command that ends a container and leaves nothing of it. It succeeds where there is
        none; Docker's own fails then, or does not, by its version."""
        if self.is_podman:
            return self.words("rm", "--force", "--ignore", name)
        return ["/bin/sh", "-c", _REMOVED, self.program, name]


class Engines:
    """What is known of the engines here. Thread-safe."""

    def __init__(self, environ: Mapping[str, str], seconds: float = PROBE_SECONDS) -> None:
        """`environ` is the worker's. A look at an engine takes `seconds` at most."""
        self._seconds = seconds
        self._environ = {
            name: value
            for name, value in environ.items()
            if name in _NAMES or name.startswith(_PREFIXES)
        }
        self._ask = Programs(environ=self._environ)
        self._wanted = environ.get(CHOICE, "")
        self._lock = Lock()
        self._found: Engine | None = None
        self.note = ""
        """Why there is none."""

    @property
    def programs(self) -> Mapping[str, str]:
        """Those that are on the PATH, in the order in which they are asked."""
        path = self._environ.get("PATH", os.defpath)
        kinds = [kind for kind in KINDS if self._wanted in ("", kind)]
        found = {kind: shutil.which(kind, path=path) for kind in kinds}
        return {kind: program for kind, program in found.items() if program is not None}

    @property
    def known(self) -> Engine | None:
        """The one that answered; nobody is asked."""
        return self._found

    def find(self) -> Engine | None:
        """The first that answers. One that has answered is not asked again."""
        with self._lock:
            if self._found is None:
                notes = []
                for kind, program in self.programs.items():
                    found = self._probe(kind, program)
                    if isinstance(found, Engine):
                        self._found, self.note = found, ""
                        return found
                    notes.append(f"{kind}, but {found}")
                self.note = "; ".join(notes) or "neither"
            return self._found

    def _probe(self, kind: str, program: str) -> Engine | str:
        if kind == "docker" and self._environ.get("DOCKER_HOST", "").startswith(_FAR):
            return "DOCKER_HOST is another machine"
        side = "Client" if kind == "podman" else "Server"
        words = [program, "version", "--format", "{{." + side + ".Version}}"]
        told = self._ask(words, self._seconds)
        version = told.out.strip()
        if told.ok and version:
            return Engine(kind, program, version, self._environ, self._ask)
        return why(told)


def why(told: Completed) -> str:
    """Of a command that failed, in a few words."""
    if told.problem == "timeout":
        return "it does not answer"
    lines = [line.strip() for line in (told.err or told.out).splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"it ended with {told.code}"


def own_limits() -> list[str]:
    """Options that give a container the limits of this process: an engine that may not raise them
    fails with its own defaults. Podman lowers its own limit of processes to what the system can
    number, and cannot give more than that."""
    import resource

    most = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC}
    found = []
    for name, number in most.items():
        soft, hard = resource.getrlimit(number)
        if name == "nproc" and resource.RLIM_INFINITY not in (soft, hard):
            soft, hard = min(soft, _pid_max()), min(hard, _pid_max())
        if resource.RLIM_INFINITY not in (soft, hard):
            found += ["--ulimit", f"{name}={soft}:{hard}"]
    return found


def _pid_max() -> int:
    try:
        with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 32_768
