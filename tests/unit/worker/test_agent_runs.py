"""A run that goes on for long is looked at, and what it has done is told."""

from __future__ import annotations

from gpulayer.contracts.runs import plain
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.slots import LOOK_SECONDS
from tests.unit.worker.agent_desk import Desk

ROWS = tuple(plain(index, 1.0, 1.1, None) for index in range(3))


def test_what_a_run_has_done_is_told_once_and_again_if_nobody_answered() -> None:
    desk = Desk()
    desk.register()
    alone, run = desk.running(job_id="alone"), desk.running(run={"first": 0, "last": 9})
    assert not desk.all(say.LookAtRun)
    desk.pass_time(LOOK_SECONDS)
    assert [look.task_id for look in desk.all(say.LookAtRun)] == [run]
    desk.hear(heard.ElementsDone(run, ROWS[:2]))
    (news,) = desk.report().tasks
    assert (news.task_id, news.phase, news.exit, news.elements) == (run, "running", None, ROWS[:2])
    desk.answer_report()
    desk.hear(heard.ElementsDone(run, ROWS[:2]))
    assert desk.report().tasks == (news,), "it is known"
    desk.hear(heard.ElementsDone(run, ROWS))
    assert [line.elements for line in desk.report().tasks] == [ROWS[2:]]
    desk.lose_call()
    desk.pass_time(1.0)
    desk.register()
    assert [line.elements for line in desk.report().tasks] == [ROWS[2:]]
    desk.answer_report()
    looks = len(desk.all(say.LookAtRun))
    desk.pass_time(100.0)
    assert len(desk.all(say.LookAtRun)) - looks < 10, "seldom, once it is old"
    assert alone not in {look.task_id for look in desk.all(say.LookAtRun)}
