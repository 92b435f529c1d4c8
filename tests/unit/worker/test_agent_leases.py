"""How long an agent may go on with a task of which no plane has heard."""

from __future__ import annotations

import pytest

from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.events import Attached
from tests.unit.worker.agent_desk import CANCELLED, Desk


def silent(desk: Desk, seconds: float) -> list[say.Instruction]:
    """The plane does not answer any more."""
    said = desk.lose_call()
    end = desk.now + seconds
    while desk.now < end:
        said += desk.pass_time(min(0.5, end - desk.now))
        if desk.all(say.SendRegister):
            said += desk.hear(heard.CallFailed(desk.newest(say.SendRegister).session))
    return said


def test_a_task_with_attempts_left_is_ended_before_its_lease_is_over(desk: Desk) -> None:
    task_id = desk.running(retries=1)
    sent = desk.agent.slots.get(task_id)
    assert sent is not None
    began = sent.authorised_at
    silent(desk, began + 24.0 - desk.now)
    assert desk.all(say.End) == []
    silent(desk, 1.6)
    (end,) = desk.all(say.End)
    assert (end.task_id, end.mode) == (task_id, "kill")


def test_its_end_is_then_called_a_loss(desk: Desk) -> None:
    task_id = desk.running(retries=1)
    silent(desk, 40.0)
    desk.ended(task_id, CANCELLED)
    desk.pass_time(1.0)
    desk.register()
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert (news.exit.outcome, news.exit.reason) == ("lost", "worker_lost")


def test_what_a_supervisor_ends_because_it_must_leave_is_a_loss_too(desk: Desk) -> None:
    task_id = desk.running()
    desk.ended(task_id, {**CANCELLED, "reason": "shutdown"})
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert (news.exit.outcome, news.exit.reason) == ("lost", "supervisor_lost")


def test_a_task_without_attempts_left_runs_on(desk: Desk) -> None:
    desk.running()
    silent(desk, 120.0)
    assert desk.all(say.End) == []


def test_a_start_that_the_plane_may_not_know_of_is_no_licence(desk: Desk) -> None:
    task_id = desk.given()
    desk.started(task_id)
    silent(desk, 30.0)
    assert [end.task_id for end in desk.all(say.End)] == [task_id]


def test_the_lease_counts_from_the_sending_of_what_was_answered(desk: Desk) -> None:
    task_id = desk.running(retries=1)
    desk.pass_time(5.0)
    sent_at = desk.now
    desk.now += 3.0
    desk.answer_report()
    slot = desk.agent.slots.get(task_id)
    assert slot is not None
    assert slot.authorised_at == pytest.approx(sent_at, abs=0.2)
    assert desk.newest(say.Remember).at == slot.authorised_at


def test_the_supervisor_is_told_how_long_what_may_go_again_may_run(desk: Desk) -> None:
    kept = desk.running(job_id="kept")
    assert desk.all(say.Lease) == []
    task_id = desk.running(retries=1)
    slot = desk.agent.slots.get(task_id)
    assert slot is not None
    assert desk.newest(say.Lease).until == {task_id: slot.authorised_at + 27.5}
    desk.ended(task_id)
    desk.answer_report()
    assert desk.newest(say.Lease).until == {}, "and that nothing has a time any more"
    before = len(desk.all(say.Lease))
    desk.pass_time(5.0)
    desk.answer_report()
    assert len(desk.all(say.Lease)) == before
    assert desk.agent.slots.get(kept) is not None


def test_what_the_supervisor_ended_is_a_loss_to_any_agent() -> None:
    desk = Desk(last_heard=99.0, listed=False)
    desk.hear(heard.SupervisorListed((Attached("t1", 1, "job", 0, {"again": True}),)))
    desk.register()
    asked = desk.newest(say.Ship)
    desk.hear(heard.LogShipped(asked.session, "t1", asked.number, 0))
    desk.answer_report()
    desk.ended("t1", {**CANCELLED, "reason": "worker_lost"})
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert (news.exit.outcome, news.exit.reason) == ("lost", "worker_lost")


def test_a_new_agent_goes_on_with_the_lease_of_the_old_one() -> None:
    for last_heard, ends in ((90.0, 0), (70.0, 1)):
        desk = Desk(last_heard=last_heard, listed=False)
        desk.hear(heard.SupervisorListed((Attached("t1", 1, "job", 0, {"again": True}),)))
        assert len(desk.all(say.End)) == ends
