"""When a job that waits may begin, and what would let it begin sooner, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpulayer.cli import render
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import duration_text


def show_outlook(outlook: Mapping[str, Any] | None) -> None:
    """Nothing for a job that does not wait, or from a plane that is older than this."""
    if outlook:
        for line in lines(outlook, SystemClock().now()):
            render.paragraph(line)


def lines(outlook: Mapping[str, Any], now: float) -> Iterator[str]:
    """`starts: about 14:05:00, in 12 min`, `try:    --gpus 2 (now on lab-1)`."""
    start = outlook["start"]
    if start["at"] is not None or start["because"]:
        yield f"starts: {when(start, now)}"
    for number, one in enumerate(outlook["suggestions"]):
        yield f"{'or:' if number else 'try:':<8}{one['text']} ({_effect(one, now)})"


def when(start: Mapping[str, Any], now: float) -> str:
    """`about 14:05:00, in 12 min`, or `by 14:05:00 at the latest, in 12 min at most`."""
    if start["at"] is None:
        return f"no estimate: {start['because']}" if start["because"] else "never"
    left = start["at"] - now
    if left < 1:
        return "any moment now"
    clock, span = render.moment(start["at"]), duration_text(left)
    if start["is_sure"]:
        return f"by {clock} at the latest, in {span} at most"
    return f"about {clock}, in {span}"


def _effect(suggestion: Mapping[str, Any], now: float) -> str:
    """What comes of it; of several changes, that they stand together."""
    workers: Sequence[str] = suggestion["workers"]
    where = f" on {', '.join(workers[:3])}{', ...' if len(workers) > 3 else ''}" if workers else ""
    needed = "together; " if suggestion["together"] else ""
    is_now = workers or not suggestion["set"]
    return f"{needed}{'now' if is_now else when(suggestion['start'], now)}{where}"
