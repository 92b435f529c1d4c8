"""Which calls one template process may serve: pure rules over what a call asks for.

Two calls share a template only where a fresh start of the one would be a fresh start of the other:
interpreter, environment, folder, limits, umask and preloaded modules are all alike. What each task
has for itself is left out, and never reaches the template; so are the values of its secrets.
"""

from __future__ import annotations

import os

from gpulayer.runtime.digest import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gpulayer.runtime.spawn import Launch

    Secrets = Sequence[tuple[str, str]]
    """Name and value of each."""

_OWN_PREFIX = b"GPULAYER_"
_OWN = frozenset((b"CUDA_VISIBLE_DEVICES",))
"""Of one task alone."""

_EARLY = frozenset(
    b"PATH HOME LANG LANGUAGE TZ TMPDIR VIRTUAL_ENV GLIBC_TUNABLES __PYVENV_LAUNCHER__".split()
)
_EARLY_PREFIXES = (b"PYTHON", b"LC_", b"LD_", b"MALLOC_", b"DYLD_")
"""What the interpreter and the loader read before anything of ours runs. The rest is told to the
template and forgotten once it has imported: its block can be read as long as it lives."""

_REFUSED = frozenset((b"PYTHONINSPECT", b"PYTHONDUMPREFS", b"COVERAGE_PROCESS_START"))


MOST = 4
"""Templates at one time."""
LEAST_BYTES = 256 << 20
MEMORY_SHARE = 8
"""All templates together may hold one part in so many of the machine's memory, or `LEAST_BYTES`."""
IDLE_SECONDS = 120.0


class Bounds:
    """For how long a template is kept without calls, and how much memory all may hold."""

    __slots__ = ("idle_seconds", "most_bytes")

    def __init__(self, idle_seconds: float, most_bytes: int) -> None:
        self.idle_seconds = idle_seconds
        self.most_bytes = most_bytes


def most_bytes() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(LEAST_BYTES, memory // MEMORY_SHARE)


class Shared:
    """What all calls of one template have alike."""

    __slots__ = ("early", "key", "told")

    def __init__(self, key: str, told: list[tuple[bytes, bytes]]) -> None:
        self.key = key
        self.told = told
        self.early = [name + b"=" + value for name, value in told if _is_early(name)]


def obstacle(launch: Launch, secrets: Secrets) -> str:
    """Why it starts cold whatever else is true; nothing where it may be forked."""
    pairs = _pairs(launch.environ)
    names = {name for name, _ in pairs}
    if len(names) != len(launch.environ):
        return "a variable is set twice or has no value"
    if names & _REFUSED:
        return "a variable of its environment asks the interpreter for more than to run"
    if any(part[:1] != b"/" for part in _value(pairs, b"PYTHONPATH").split(b":") if part):
        return "PYTHONPATH is relative"
    if launch.argv[0][:1] != b"/":
        return "its interpreter is not named by its path"
    for own, secret in secrets:
        raw = os.fsencode(secret)
        if any(raw in value and name != os.fsencode(own) for name, value in pairs):
            return "the value of a secret is part of another variable"
    return ""


def shared(
    launch: Launch,
    warm: dict[str, Any],
    secrets: Secrets,
    interpreter: object,
) -> Shared:
    """`interpreter` is its identity; `warm` is that of the task: preload, sys_path, in_place."""
    own = _OWN.union(os.fsencode(name) for name, _ in secrets)
    pairs = _pairs(launch.environ)
    told = [pair for pair in pairs if pair[0] not in own and not pair[0].startswith(_OWN_PREFIX)]
    place = (launch.cwd, launch.cwd_id) if warm.get("in_place") else ()
    parts = (
        launch.argv[0],
        interpreter,
        told,
        place,
        list(warm.get("preload") or ()),
        list(warm.get("sys_path") or ()),
        (warm.get("script") or {}).get("flags"),
        launch.umask,
        sorted(launch.rlimits.items()),
        launch.nice,
        sorted(launch.affinity),
        sorted(launch.ignored),
    )
    return Shared(sha256_hex(repr(parts).encode()), told)


def with_site(early: list[bytes], folder: bytes) -> list[bytes]:
    """The environment of a template for scripts: `folder` is first on its path."""
    found = [entry for entry in early if not entry.startswith(b"PYTHONPATH=")]
    paths = [entry[11:] for entry in early if entry.startswith(b"PYTHONPATH=")]
    return [*found, b"PYTHONPATH=" + b":".join([folder, *filter(None, paths)])]


def _is_early(name: bytes) -> bool:
    return name in _EARLY or name.startswith(_EARLY_PREFIXES)


def _pairs(block: list[bytes]) -> list[tuple[bytes, bytes]]:
    parts = (entry.partition(b"=") for entry in block)
    return [(name, value) for name, sign, value in parts if name and sign]


def _value(pairs: list[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    return next((value for name, value in pairs if name == wanted), b"")
