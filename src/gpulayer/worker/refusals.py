"""Reports that the plane refuses: which task's news is at fault, and when to give up.

Such a report would be refused again, with everything that is said beside it. So after a refusal
news travels alone, one task a report, until none is due. What is refused alone `TRIES` times is
replaced by an end that says so and carries nothing of the task's own; where even that is refused,
the task is let go.
"""

from __future__ import annotations

from gpulayer.contracts.messages import Exit, TaskReport
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.worker.slot import Slot
from gpulayer.worker.slots import Slots

TRIES = 3
WORDS = 500
"""Characters of a refusal that are told on."""


class Refusals:
    def __init__(self) -> None:
        self.alone = False
        """Whether a report may carry the news of one task only."""
        self._counts: dict[tuple[str, bool], int] = {}
        """(task, whether its end is replaced already) -> refusals of it alone."""

    def none_due(self) -> None:
        """All news has been taken."""
        self.alone = False
        self._counts.clear()

    def heard(self, slots: Slots, news: tuple[TaskReport, ...], why: str) -> Slot | None:
        """The report that carried this was refused. A task to let go of, if there is one."""
        if len(news) != 1:
            self.alone = self.alone or bool(news)
            return None
        self.alone = True
        slot = slots.get(news[0].task_id)
        if slot is None:
            return None
        key = (slot.task_id, _is_replaced(slot))
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] < TRIES:
            return None
        if slot.exit is None:
            slot.start_reported = True  # its end will tell of it
            return None
        if _is_replaced(slot):
            return slot
        slot.exit = _replaced(slot.exit, why)
        return None


def _is_replaced(slot: Slot) -> bool:
    return slot.exit is not None and slot.exit.reason == Reason.REPORT_REFUSED


def _replaced(end: Exit, why: str) -> Exit:
    return Exit(
        TaskState.FAILED,
        Reason.REPORT_REFUSED,
        f"it {end.outcome}, and the plane refused what it left: {why[:WORDS]}",
        exit_code=end.exit_code or None,
    )
