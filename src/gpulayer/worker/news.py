"""What a report says about the tasks, and when it must be sent.

Starts wait a moment for company, ends do not wait: a short command costs one report, and while
one is in flight news piles up for the next.
"""

from __future__ import annotations

import base64

from gpulayer.contracts.messages import TaskReport
from gpulayer.worker.slots import Slot, Slots

START_NEWS_SECONDS = 0.02


def due(slots: Slots, again_after: float) -> float:
    """When the most urgent news must travel. An end that was sent and not recorded is sent again
    after `again_after` seconds."""
    times = [float("inf")]
    for slot in slots:
        if slot.silent:
            continue
        if slot.ended:
            times.append(0.0 if slot.exit_sent is None else slot.exit_sent + again_after)
        elif _has_start(slot):
            times.append(slot.started_seen + START_NEWS_SECONDS)
    return min(times)


def gather(slots: Slots, again_after: float, now: float) -> tuple[TaskReport, ...]:
    """All that is to be said now. Marks the ends in it as sent."""
    news = []
    for slot in slots:
        if slot.silent:
            continue
        if slot.ended and (slot.exit_sent is None or now >= slot.exit_sent + again_after):
            slot.exit_sent = now
            news.append(_end(slot))
        elif _has_start(slot):
            news.append(TaskReport(slot.task_id, slot.fence, slot.phase, slot.started_at))
    return tuple(news)


def heard(slots: Slots, news: tuple[TaskReport, ...]) -> None:
    """The report that carried this news was answered."""
    for line in news:
        slot = slots.get(line.task_id)
        if slot is not None and line.phase == "running":
            slot.start_reported = True


def _has_start(slot: Slot) -> bool:
    return slot.phase == "running" and not slot.start_reported


def _end(slot: Slot) -> TaskReport:
    held = slot.log.held if slot.log.inline else b""
    return TaskReport(
        slot.task_id,
        slot.fence,
        "exited",
        slot.started_at,
        slot.exit,
        slot.log.size,
        base64.b64encode(held).decode() if held else None,
    )
