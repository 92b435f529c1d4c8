"""What a request to the supervisor looks like, checked before anything of it is used.

A shape is a type, `[shape]` for a list of such, `{key: shape}` for an object whose known keys,
where they are there and not null, have these shapes, or `Each(shape)` for an object of such values.
Numbers are finite and of 63 bits at most. Stdlib only, as everything that the supervisor loads.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST = (1 << 63) - 1


class Each:
    """An object with any keys and values of one shape."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


class Below:
    """A whole number from 0 up to, and without, `end`."""

    def __init__(self, end: int) -> None:
        self.end = end


def fault(value: Any, shape: Any, where: str = "request") -> str | None:
    """The place of the first value that does not fit; None where all do."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return where
        parts = ((f"{where}.{k}", value.get(k), s) for k, s in shape.items())
        return _first((w, v, s) for w, v, s in parts if v is not None)
    if isinstance(shape, Each):
        if not isinstance(value, dict):
            return where
        return _first((f"{where}.{k}", v, shape.shape) for k, v in value.items())
    if isinstance(shape, list):
        if not isinstance(value, list):
            return where
        return _first((f"{where}[{i}]", v, shape[0]) for i, v in enumerate(value))
    return None if _is_plain(value, shape) else where


def _first(parts: Any) -> str | None:
    return next((found for w, v, s in parts if (found := fault(v, s, w)) is not None), None)


def _is_plain(value: Any, shape: Any) -> bool:
    if isinstance(shape, Below):
        return type(value) is int and 0 <= value < shape.end
    if shape is float:
        return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))
    if shape is int:
        return _is_whole(value)
    return isinstance(value, shape)


def _is_whole(value: Any) -> bool:
    return type(value) is int and -LARGEST <= value <= LARGEST


_CELLS = Below(1 << 16)
_ENVELOPE = {
    "environ": [str],
    "cwd": str,
    "cwd_dev": int,
    "cwd_ino": int,
    "umask": Below(0o1000),
    "rlimits": Each([int]),
    "nice": int,
    "affinity": [int],
    "ignored_signals": [int],
}
_TASK = {
    **dict.fromkeys(
        ("task_id", "job_id", "argv0", "envelope_id", "attach_id", "cwd", "stdin"), str
    ),
    **dict.fromkeys(("fence", "attempt", "log_limit_bytes"), int),
    "index": Below(1 << 32),
    **dict.fromkeys(("timeout_seconds", "grace_seconds"), float),
    "rank": Below(1 << 16),
    "argv": [str],
    "environ": Each(str),
    "set": Each(str),
    "unset": [str],
    "pipes": [{"path": str, "stream": Below(5), "rank": Below(1 << 16)}],
    "redact": [[str]],
    "unbuffered": bool,
    "records": bool,
    "warm": {
        "preload": [str],
        "sys_path": [str],
        "in_place": bool,
        "script": {
            "flags": [str],
            "at": Below(1 << 16),
            "module": bool,
            "named": bool,
            "files": [[str]],
        },
    },
}
_TAIL = {"seq": int, "offset": Below(LARGEST), "max_bytes": Below(LARGEST)}
_COMMON = {"op": str, "seq": int, "task_id": str}
REQUESTS: dict[str, dict[str, Any]] = {
    "hello": {"role": str, "version": str},
    "envelope": {"envelope": _ENVELOPE, "envelope_id": str, "keep": bool},
    "attach": {
        "envelope": _ENVELOPE,
        "attach_id": str,
        "streams": Each(str),
        "merged": bool,
        "mode": str,
        "labels": [int],
        "terminal": {"attrs": list, "rows": _CELLS, "cols": _CELLS},
    },
    "start": {"task": _TASK, "tail": _TAIL},
    "cancel": {"mode": str, "grace_seconds": float, "reason": str},
    "lease": {"until": Each(float)},
    "tail": _TAIL,
    "environ": {"envelope_id": str, "names": [str]},
    "redact": {"texts": [str]},
    "drop": {"envelope_ids": [str]},
    "keep": {"envelope_ids": [str]},
    "signal": {"signum": int, "target": str},
    "winsize": {"rows": _CELLS, "cols": _CELLS},
    "closed": {"stream": int},
    "visit": {"fence": int, "argv": [str], "set": Each(str), "watch": bool, "mark": str},
    "signal_visit": {"signum": int},
}


def fault_of(request: dict[str, Any]) -> str | None:
    """Where a request is not what its word needs; None where it can be acted on."""
    wanted = REQUESTS.get(str(request.get("op")), {})
    return fault(request, {**_COMMON, **wanted})
