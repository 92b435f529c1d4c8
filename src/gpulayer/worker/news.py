"""What a report says about the tasks, and when it must be sent.

Starts wait a moment for company: a short command costs one report. An end waits for none, unless
more tasks are there to follow it than run: then short commands share a report.
"""

from __future__ import annotations

import base64

from gpulayer.contracts.messages import TaskReport
from gpulayer.worker.slot import Slot
from gpulayer.worker.slots import Slots

START_NEWS_SECONDS = 0.02
END_NEWS_SECONDS = 0.02
REPORT_BYTES = 8 << 20
"""A report is closed once it is longer; a plane refuses those of 64 MiB and more."""
_OUTPUT_BYTES = 300
"""Of a line about an output, besides its path."""


def due(slots: Slots, again_after: float) -> float:
    """When the most urgent news must travel. An end that was sent and not recorded is sent again
    after `again_after` seconds."""
    times = [float("inf")]
    waits = END_NEWS_SECONDS if slots.has_followers else float("-inf")
    for slot in slots.all:
        if slot.silent or slot.phase == "waiting":
            continue
        if slot.ended:
            sent = slot.exit_sent
            times.append(slot.ended_seen + waits if sent is None else sent + again_after)
        elif _has_start(slot):
            times.append(slot.started_seen + START_NEWS_SECONDS)
        elif _has_entered(slot) or _has_done(slot):
            times.append(0.0)
    return min(times)


def gather(
    slots: Slots, again_after: float, now: float, *, alone: bool = False
) -> tuple[TaskReport, ...]:
    """All that is to be said now, or as much of it as one report holds: what is left stays due.
    `alone`: of one task only. Marks the ends in it as sent."""
    news: list[TaskReport] = []
    size = 0
    for slot in slots.all:
        if slot.silent:
            continue
        if size > REPORT_BYTES or (alone and news):
            break
        if slot.ended and (slot.exit_sent is None or now >= slot.exit_sent + again_after):
            slot.exit_sent, slot.has_room = now, False
            news.append(_end(slot))
            size += _size(news[-1])
        elif _has_start(slot) and now >= slot.started_seen + START_NEWS_SECONDS:
            start = (slot.task_id, slot.fence, slot.phase, slot.started_at)
            where = slot.rendezvous
            took, world = slot.preparation, slot.world
            news.append(TaskReport(*start, rendezvous=where, preparation=took, world=world))
        elif _has_entered(slot):
            news.append(TaskReport(slot.task_id, slot.fence, slot.entered))
        elif _has_done(slot):
            done = slot.done[slot.done_reported :]
            news.append(TaskReport(slot.task_id, slot.fence, slot.phase, elements=done))
            size += _size(news[-1])
    return tuple(news)


def heard(slots: Slots, news: tuple[TaskReport, ...]) -> None:
    """The report that carried this news was answered."""
    for line in news:
        slot = slots.get(line.task_id)
        if slot is not None and line.phase == "running":
            slot.start_reported = True
            slot.done_reported += len(line.elements)
        elif slot is not None and line.exit is None:
            slot.entered_reported = line.phase or ""


def _has_start(slot: Slot) -> bool:
    return slot.phase == "running" and not slot.start_reported


def _has_entered(slot: Slot) -> bool:
    return slot.phase == "staging" and slot.entered != slot.entered_reported


def _has_done(slot: Slot) -> bool:
    """Elements of a run that the plane has not heard of, while it goes on."""
    return slot.phase == "running" and slot.start_reported and len(slot.done) > slot.done_reported


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
        preparation=slot.preparation,
        world=slot.world,
    )


def _size(news: TaskReport) -> int:
    """About how long it is as JSON."""
    end = news.exit
    if end is None:
        return len(str(news.elements)) if news.elements else 0
    paths = sum(len(str(output.get("path"))) + _OUTPUT_BYTES for output in end.outputs)
    texts = len(news.log or "") + len(end.value or "") + len(end.message)
    texts += len(str(end.elements)) if end.elements else 0
    return texts + paths + (len(str(end.error)) if end.error else 0)
