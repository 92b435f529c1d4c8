"""Quantities as people type them: `2h`, `64GB`, `a100:2`. Pure text, no pydantic.

Durations follow the shell's `timeout` (90, 90s, 2h) and Slurm (`1-12:00:00`: days-hours:minutes:
seconds). Memory is in GB of 10**9 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpulayer.contracts import limits
from gpulayer.errors import UsageError

_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(rf"({_NUMBER})([smhdw]?)", re.ASCII)
_SPANS = re.compile(rf"{_NUMBER}[smhdw]?|(?:{_NUMBER}[smhdw])+", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,6})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?", re.ASCII)
_BYTES = {
    "k": 1e-6, "m": 1e-3, "g": 1.0, "t": 1e3,
    "ki": 2**10 / 1e9, "mi": 2**20 / 1e9, "gi": 2**30 / 1e9, "ti": 2**40 / 1e9,
}  # fmt: skip
_MEMORY = re.compile(rf"({_NUMBER})\s?(?:([kmgt]i?)b?)?", re.ASCII | re.IGNORECASE)
_MODEL = re.compile(r"[a-z][a-z0-9]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What `--gpus` asks for: how many per node, of which models (any of), how large each."""

    count: int
    models: tuple[str, ...] = ()
    memory_gb: float | None = None


def parse_duration(text: str, option: str = "--timeout", *, zero: bool = False) -> float:
    """Seconds of `90`, `90s`, `1.5h`, `1h30m`, `12:00:00`, `1-12:00:00`. Finite, and above 0
    unless `zero` is a time as well."""
    seconds = _spans(text.strip().lower())
    if seconds is None:
        seconds = _clock(text.strip())
    if seconds is None:
        raise _refused(option, text, "is not a duration", "90s, 15m, 2h or 1-12:00:00", "2h")
    if not (seconds > 0 or (zero and seconds == 0)) or seconds > limits.SECONDS:
        raise _refused(
            option, text, f"is not between 0 and {limits.SECONDS // 86_400} days", "2h", "2h"
        )
    return seconds


def parse_memory_gb(text: str, option: str = "--memory") -> float:
    """GB of `64`, `64G`, `64GB`, `512MB`, `1.5T`, `64GiB`. Above 0."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise _refused(option, text, "is not an amount of memory", "64, 64GB or 512MB", "64")
    memory = float(match[1]) * _BYTES[(match[2] or "g").lower()]
    if not 0 < memory <= limits.GIGABYTES:
        raise _refused(option, text, f"is not between 0 and {limits.GIGABYTES} GB", "64GB", "64")
    return memory


def parse_gpus(text: str, option: str = "--gpus") -> GpuRequest:
    """`2`, `a100:2`, `a100,h100:2`, `24GB:2`; a model or a size alone means one."""
    request = _gpus(text.strip(), option)
    if request is None:
        raise _refused(
            option, text, "is not a number of GPUs", "2, a100:2, a100,h100:2 or 24GB:2", "2"
        )
    if request.count > limits.GPUS_PER_NODE:
        raise _refused(
            option, text, f"is more than {limits.GPUS_PER_NODE} per node", "a smaller number", "8"
        )
    if request.count == 0 and request != GpuRequest(0):
        raise _refused(option, text, "asks for a kind of GPU, but none of it", "1 or more", "1")
    return request


def bytes_text(count: float) -> str:
    """Bytes in steps of 1,000: `512 B`, `38 kB`, `4.1 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration_text(seconds: float | None) -> str:
    """`0.2 s`, `41 s`, `3 min`, `2 h 5 min`, `3 d 4 h`; `-` for None."""
    if seconds is None:
        return "-"
    seconds = max(seconds, 0.0)
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def preparation_text(preparation: Mapping[str, Any]) -> str:
    """`2.1 s: source 0.1 s, environment 2.0 s (built by uv)`, of a `messages.Preparation`."""
    steps = [
        f"{step['name']} {duration_text(step['seconds'])}"
        + (f" ({step['note']})" if step.get("note") else "")
        for step in preparation["steps"]
    ]
    return f"{duration_text(preparation['seconds'])}: {', '.join(steps)}"


def normal_model(name: str) -> str | None:
    """A GPU model as capabilities name it: `RTX 4090` is `rtx4090`. None if it is no such name."""
    model = re.sub(r"[\s_-]+", "", name.lower().removeprefix("nvidia "))
    return model if _MODEL.fullmatch(model) else None


def _spans(text: str) -> float | None:
    if _SPANS.fullmatch(text) is None:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _SPAN.findall(text))


def _clock(text: str) -> float | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if any(part > 59 for part in parts[1:]):
        return None
    if days is None and len(parts) == 2:
        parts.insert(0, 0)
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    return float(int(days or 0) * 86_400 + hours * 3_600 + minutes * 60 + seconds)


def _gpus(text: str, option: str) -> GpuRequest | None:
    kind, colon, count = text.rpartition(":")
    if not colon:
        kind, count = ("", text) if _is_count(text) else (text, "1")
    if not text or not _is_count(count) or (colon and not kind):
        return None
    if not kind:
        return GpuRequest(int(count))
    memory = _MEMORY.fullmatch(kind)
    if memory is not None:
        if memory[2] is None:
            return None
        return GpuRequest(int(count), memory_gb=parse_memory_gb(kind, option))
    models = [normal_model(name) for name in kind.split(",")]
    known = tuple(model for model in models if model is not None)
    return GpuRequest(int(count), known) if len(known) == len(models) else None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _refused(option: str, text: str, why: str, such: str, mend: str) -> UsageError:
    shown = text if len(text) <= 40 else text[:37] + "..."
    return UsageError(
        "usage", f"{option} {shown!a} {why}", why=f"write {such}", hint=f"{option} {mend}"
    )
