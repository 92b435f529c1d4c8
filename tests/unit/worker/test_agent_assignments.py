"""What an agent is told about its tasks, late, twice and against each other: begin, end."""

from __future__ import annotations

from gpulayer.contracts.messages import Acquired, Cancel
from gpulayer.worker import events as heard, instructions as say
from tests.unit.worker.agent_desk import CANCELLED, Desk, kinds


def test_only_the_newest_acquire_counts_and_only_once(desk: Desk) -> None:
    asked = desk.newest(say.SendAcquire)
    answer = Acquired(assignments=(desk.assignment(),))
    desk.hear(heard.AcquireAnswered(asked.session, asked.number, answer))
    desk.hear(heard.AcquireAnswered(asked.session, asked.number, answer))
    assert len(desk.all(say.Run)) == 1


def test_a_task_is_not_run_again_by_an_assignment_that_comes_late(desk: Desk) -> None:
    assignment = desk.assignment()
    desk.acquired(assignment)
    desk.started(assignment.task_id)
    desk.ended(assignment.task_id)
    desk.answer_report()
    desk.acquired(assignment)
    assert len(desk.all(say.Run)) == 1


def test_an_answer_older_than_its_lease_starts_nothing(desk: Desk) -> None:
    desk.now += 25.5
    desk.acquired(desk.assignment())
    assert desk.all(say.Run) == []


def test_what_is_taken_back_ends_unless_it_has_begun(desk: Desk) -> None:
    begun = desk.given()
    later, unheard = desk.assignment(index=0, job_id="job"), desk.assignment(job_id="other")
    desk.acquired(later)  # of the element that is being prepared: it waits
    sent = desk.assignment()
    asked = (desk.newest(say.Run).assignment, later, unheard)
    desk.acquired(retract=asked)
    told = {news.task_id: news.exit for news in desk.report().tasks}
    assert set(told) == {later.task_id, unheard.task_id}
    for end in told.values():
        assert end is not None
        assert (end.outcome, end.reason, end.started_at) == ("lost", "retracted", None)
    desk.answer_report()
    desk.acquired(unheard, sent)
    assert desk.all(say.Run)[0].assignment.task_id == begun
    assert unheard.task_id not in [run.assignment.task_id for run in desk.all(say.Run)]


def test_the_next_attempt_waits_until_nothing_of_the_last_one_lives(desk: Desk) -> None:
    old = desk.running(job_id="job")
    desk.pass_time(5.0)
    assert "End" in kinds(desk.answer_report(kill=(old,)))
    new = desk.given(job_id="job")
    other = desk.given(job_id="another")
    assert [run.assignment.task_id for run in desk.all(say.Run)] == [old, other]
    desk.printed(old, b"", end=CANCELLED)
    assert desk.newest(say.Run).assignment.task_id == new


def test_a_running_task_is_ended_once_per_order_and_more_firmly_if_asked(desk: Desk) -> None:
    task_id = desk.running()
    desk.cancel(task_id, "int")
    desk.cancel(task_id, "int")
    desk.cancel(task_id, "kill")
    desk.cancel(task_id, "term")
    assert [end.mode for end in desk.all(say.End)] == ["int", "kill"]


def test_an_order_that_comes_while_it_is_prepared_is_carried_out_at_its_start(desk: Desk) -> None:
    task_id = desk.given()
    desk.cancel(task_id)
    assert desk.all(say.End) == []
    assert "End" in kinds(desk.started(task_id))


def test_a_task_that_is_still_waiting_never_starts(desk: Desk) -> None:
    desk.running(job_id="job")
    waiting = desk.given(job_id="job")
    desk.cancel(waiting)
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert (news.task_id, news.exit.outcome) == (waiting, "cancelled")
    assert len(desk.all(say.Run)) == 1


def test_what_nobody_owns_is_ended_and_never_reported(desk: Desk) -> None:
    task_id = desk.running()
    desk.pass_time(5.0)
    desk.answer_report(kill=(task_id,))
    assert desk.newest(say.End).mode == "kill"
    before = len(desk.all(say.SendReport))
    assert "Forget" in kinds(desk.ended(task_id, CANCELLED))
    assert len(desk.all(say.SendReport)) == before


def test_an_order_of_an_unknown_task_is_harmless(desk: Desk) -> None:
    desk.acquired(cancel=(Cancel("t99", "kill"),))
    desk.pass_time(5.0)
    desk.answer_report(kill=("t98",), recorded=("t97",))
    assert desk.all(say.End) == []
