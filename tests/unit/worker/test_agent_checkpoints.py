"""The agent has checkpoints kept from the start of a task, and again after its own restart."""

from __future__ import annotations

from typing import Any

from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.slot import assigned, note_of
from tests.unit.worker.agent_desk import Desk
from tests.unit.worker.test_steps import assignment

WISH = {"path": "ck", "interval_seconds": 5.0}


def note(**spec: Any) -> dict[str, Any]:
    return note_of(assignment(spec))


def test_a_task_that_a_later_agent_finds_is_kept_at_once() -> None:
    desk = Desk(listed=False)
    found = heard.Attached("t1", 1, "job", 0, note(checkpoint=WISH))
    other = heard.Attached("t2", 2, "other", 0, note())
    desk.hear(heard.SupervisorListed((found, other)))
    (keeping,) = desk.all(say.KeepCheckpoints)
    assert (keeping.task_id, keeping.fence, keeping.at_once) == ("t1", 1, True)
    assert keeping.note["checkpoint"] == WISH


def test_a_task_is_kept_from_its_start_and_one_without_a_wish_never() -> None:
    for spec, count in (({"checkpoint": WISH}, 1), ({}, 0)):
        desk = Desk()
        slot = assigned(assignment(spec), desk.now)
        desk.agent.slots.add(slot)
        desk.hear(heard.Tick())
        desk.hear(heard.TaskStarted("t1", slot.run, 1.0))
        assert slot.phase == "running"
        kept = desk.all(say.KeepCheckpoints)
        assert [one.at_once for one in kept] == [False] * count
