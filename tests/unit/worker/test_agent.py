"""The agent's rules, one fact at a time."""

from __future__ import annotations

import base64

import pytest

from gpulayer.contracts.messages import Acquired, Cancel, Exit, Preparation, PreparedStep
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.events import Attached
from gpulayer.worker.refusals import TRIES
from tests.unit.worker.agent_desk import CANCELLED, Desk, kinds, record


@pytest.fixture
def desk() -> Desk:
    """Registered, with an acquire parked."""
    desk = Desk()
    desk.register()
    return desk


# --- talk with the plane ----------------------------------------------------------------------


def test_it_registers_once_it_knows_what_its_supervisor_has() -> None:
    desk = Desk(listed=False)
    assert desk.pass_time(60) == []
    desk.hear(heard.SupervisorListed((Attached("t7", 7, "job", 0),)))
    (line,) = desk.newest(say.SendRegister).message.inventory
    assert (line.task_id, line.fence, line.phase) == ("t7", 7, "running")


def test_once_registered_one_acquire_is_parked(desk: Desk) -> None:
    assert [order.number for order in desk.all(say.SendAcquire)] == [1]
    desk.acquired()
    assert [order.number for order in desk.all(say.SendAcquire)] == [1, 2]


def test_a_plane_it_registers_with_says_which_envelopes_are_needed() -> None:
    desk = Desk()
    desk.register(envelopes=("e1",))
    assert desk.newest(say.KeepEnvelopes).envelope_ids == ("e1",)


def test_it_looks_at_the_pythons_that_it_is_asked_about(desk: Desk) -> None:
    desk.acquired(probe=("/venv/bin/python",))
    assert desk.newest(say.Probe).paths == ("/venv/bin/python",)


def test_a_quiet_worker_reports_at_its_interval(desk: Desk) -> None:
    for expected in range(1, 4):
        desk.pass_time(5.0)
        assert len(desk.all(say.SendReport)) == expected
        desk.answer_report()


def test_a_report_is_never_sent_while_another_is_under_way(desk: Desk) -> None:
    first, second = desk.given(job_id="a"), desk.given(job_id="b")
    desk.started(first)
    desk.ended(first)
    desk.started(second)
    desk.ended(second)
    assert [news.task_id for news in desk.report().tasks] == [first]
    desk.answer_report()
    assert [news.task_id for news in desk.report().tasks] == [second]


def test_a_lost_call_leads_to_one_new_session_whatever_was_under_way(desk: Desk) -> None:
    desk.pass_time(5.0)
    old = desk.newest(say.SendReport).session
    desk.lose_call()
    assert desk.hear(heard.CallFailed(old)) == []
    desk.pass_time(0.1)
    assert len(desk.all(say.SendRegister)) == 2
    assert kinds(desk.register()) == ["Remember", "KeepEnvelopes", "SendAcquire"]


def test_answers_of_an_earlier_session_are_dropped(desk: Desk) -> None:
    asked = desk.newest(say.SendAcquire)
    late = Acquired(assignments=(desk.assignment(),))
    desk.lose_call()
    desk.pass_time(0.1)
    desk.register()
    desk.hear(heard.AcquireAnswered(asked.session, asked.number, late))
    assert desk.all(say.Run) == []


def test_a_plane_that_knows_it_no_more_is_registered_with(desk: Desk) -> None:
    desk.pass_time(5.0)
    desk.answer_report(ok=False)
    desk.pass_time(0.1)
    assert len(desk.all(say.SendRegister)) == 2


def test_a_plane_that_is_gone_is_asked_for_more_and_more_rarely() -> None:
    desk = Desk()
    desk.register()
    desk.lose_call()
    tries = []
    for _ in range(8):
        before = desk.now
        while not any(isinstance(one, say.SendRegister) for one in desk.pass_time(0.01)):
            pass
        tries.append(round(desk.now - before, 2))
        desk.hear(heard.CallFailed(desk.newest(say.SendRegister).session))
    assert tries[0] <= 0.03
    assert tries == sorted(tries)
    assert tries[-1] <= 0.51


def test_a_plane_that_stays_away_is_started_again(desk: Desk) -> None:
    desk.lose_call()
    away = 0.0
    while not desk.all(say.StartPlane):
        desk.pass_time(0.1)
        away += 0.1
        if (asked := desk.newest(say.SendRegister)).session > 2:
            desk.hear(heard.CallFailed(asked.session))
    assert 4.9 <= away <= 5.6


def test_it_leaves_when_it_is_told_to_and_has_nothing_left(desk: Desk) -> None:
    task_id = desk.running()
    assert "Leave" not in kinds(desk.acquired(leave=True))
    desk.ended(task_id)
    assert "Leave" in kinds(desk.answer_report())


def test_what_becomes_known_of_the_machine_is_reported_once(desk: Desk) -> None:
    desk.hear(heard.CapabilitiesChanged({"cpu_cores": 8}))
    assert desk.report().capabilities == {"cpu_cores": 8}
    desk.answer_report()
    desk.pass_time(5.0)
    assert desk.report().capabilities is None


# --- a task's way -----------------------------------------------------------------------------


def test_a_short_command_costs_one_report_with_its_log_inside(desk: Desk) -> None:
    task_id = desk.given()
    assert desk.started(task_id) == []  # the start has it read from its beginning
    log = record(b"hello\n")
    desk.printed(task_id, log)
    desk.ended(task_id)
    (report,) = desk.all(say.SendReport)
    (news,) = report.message.tasks
    assert (news.started_at, news.exit and news.exit.outcome) == (5.0, "succeeded")
    assert (base64.b64decode(news.log or ""), news.log_size) == (log, len(log))
    assert kinds(desk.answer_report()) == ["Forget"]  # what it remembers is young enough
    assert desk.all(say.Ship) == []


def test_the_start_of_a_longer_one_is_told_after_a_moment(desk: Desk) -> None:
    task_id = desk.given()
    desk.started(task_id)
    assert desk.all(say.SendReport) == []
    desk.pass_time(0.03)
    assert [(news.task_id, news.phase) for news in desk.report().tasks] == [(task_id, "running")]


def test_a_long_log_is_shipped_and_the_end_waits_for_it(desk: Desk) -> None:
    task_id = desk.running()
    before = len(desk.all(say.SendReport))
    log = record(b"x" * 100_000)
    desk.printed(task_id, log)
    desk.ended(task_id)
    ship = desk.newest(say.Ship)
    assert (ship.offset, ship.data) == (0, log)
    assert len(desk.all(say.SendReport)) == before
    desk.hear(heard.LogShipped(ship.session, task_id, ship.number, len(log)))
    (news,) = desk.report().tasks
    assert (news.log, news.log_size) == (None, len(log))


def test_a_running_task_shows_its_log_within_a_moment(desk: Desk) -> None:
    task_id = desk.running()
    desk.printed(task_id, record(b"line\n"))
    assert desk.all(say.Ship) == []
    desk.pass_time(0.06)
    assert desk.newest(say.Ship).data == record(b"line\n")


def test_a_step_that_fails_is_the_end_of_the_task(desk: Desk) -> None:
    task_id = desk.given()
    desk.refused(task_id, Exit("failed", "secret_missing", "no value", exit_code=126))
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert (news.exit.reason, news.exit.exit_code) == ("secret_missing", 126)


def test_an_end_that_was_not_recorded_is_told_again(desk: Desk) -> None:
    task_id = desk.running()
    desk.ended(task_id)
    desk.answer_report(recorded=())
    assert [news.task_id for news in desk.report().tasks] == [task_id]
    before = len(desk.all(say.SendReport))
    desk.pass_time(5.0)
    assert len(desk.all(say.SendReport)) == before + 1
    assert [news.task_id for news in desk.report().tasks] == [task_id]


def test_news_that_is_refused_is_told_alone_and_at_last_replaced(desk: Desk) -> None:
    bad, good = desk.running(job_id="bad"), desk.running(job_id="good")
    desk.hear(heard.CallFailed(desk.newest(say.SendReport).session))
    for task_id in (bad, good):
        desk.ended(task_id)
    desk.pass_time(1.0)
    desk.register()
    assert [news.task_id for news in desk.report().tasks] == [bad, good]
    for _ in range(1 + TRIES):
        desk.refuse_report("past 64 MiB")
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert (news.task_id, news.exit.outcome, news.exit.reason) == (bad, "failed", "report_refused")
    assert "past 64 MiB" in news.exit.message
    desk.answer_report()
    assert [news.task_id for news in desk.report().tasks] == [good]


def test_a_task_whose_every_end_is_refused_is_let_go(desk: Desk) -> None:
    task_id = desk.running()
    desk.ended(task_id)
    for _ in range(2 * TRIES):
        assert [news.task_id for news in desk.report().tasks] == [task_id]
        desk.refuse_report()
    assert desk.newest(say.Forget).task_id == task_id
    assert desk.newest(say.SendRegister).message.inventory == ()


def test_a_start_that_is_refused_is_left_to_the_end(desk: Desk) -> None:
    task_id = desk.given()
    desk.started(task_id)
    desk.pass_time(0.1)
    for _ in range(TRIES):
        desk.refuse_report()
    before = len(desk.all(say.SendReport))
    desk.pass_time(1.0)
    assert len(desk.all(say.SendReport)) == before
    desk.ended(task_id)
    assert desk.report().tasks[0].exit is not None


def test_after_a_lost_session_the_plane_is_asked_what_it_has_of_a_log(desk: Desk) -> None:
    task_id = desk.running()
    log = record(b"x" * 50_000)
    desk.printed(task_id, log)
    desk.pass_time(0.1)
    desk.lose_call()
    desk.pass_time(0.1)
    desk.register()
    asked = desk.newest(say.Ship)
    assert asked.data == b""
    desk.hear(heard.LogShipped(asked.session, task_id, asked.number, 20_000))
    desk.pass_time(0.1)
    assert (desk.newest(say.Ship).offset, desk.newest(say.Ship).data) == (20_000, log[20_000:])


def test_what_the_plane_has_lost_of_a_log_is_read_again_even_after_the_end(desk: Desk) -> None:
    task_id = desk.running()
    log = record(b"x" * 50_000)
    desk.printed(task_id, log)
    desk.ended(task_id)
    shipped = desk.newest(say.Ship)
    desk.hear(heard.LogShipped(shipped.session, task_id, shipped.number, len(log)))
    desk.lose_call()
    desk.pass_time(0.1)
    desk.register()
    asked = desk.newest(say.Ship)
    desk.hear(heard.LogShipped(asked.session, task_id, asked.number, 7))
    assert desk.newest(say.Tail).offset == 7
    desk.hear(heard.LogGone(task_id))
    assert [news.task_id for news in desk.report().tasks] == [task_id]


# --- assignments that come late or twice ------------------------------------------------------


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


# --- leases -----------------------------------------------------------------------------------


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


# --- orders to end ----------------------------------------------------------------------------


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


# --- the supervisor ---------------------------------------------------------------------------


def test_a_task_that_a_new_supervisor_does_not_have_is_lost(desk: Desk) -> None:
    task_id = desk.running()
    desk.hear(heard.SupervisorLost())
    desk.hear(heard.SupervisorListed())
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert (news.task_id, news.exit.reason) == (task_id, "supervisor_lost")


def test_a_task_that_it_has_is_read_on_from_where_it_was(desk: Desk) -> None:
    task_id = desk.running()
    desk.printed(task_id, record(b"one"))
    read = len(record(b"one"))
    desk.hear(heard.SupervisorLost())
    desk.hear(heard.SupervisorListed((Attached(task_id, 1, "job", 0),)))
    assert desk.newest(say.Tail).offset == read


def test_a_start_that_got_lost_is_made_again_and_its_late_answer_does_not_count(
    desk: Desk,
) -> None:
    task_id = desk.given()
    desk.hear(heard.SupervisorLost())
    desk.hear(heard.SupervisorListed())
    assert [run.number for run in desk.all(say.Run)] == [1, 2]
    desk.hear(heard.TaskRefused(task_id, 1, Exit("failed", "preparation")))
    assert desk.all(say.SendReport) == []
    assert desk.started(task_id) == []  # the start has it read from its beginning


def test_orders_are_repeated_to_a_new_supervisor(desk: Desk) -> None:
    task_id = desk.running()
    desk.cancel(task_id)
    desk.hear(heard.SupervisorLost())
    assert "End" in kinds(desk.hear(heard.SupervisorListed((Attached(task_id, 1, "job", 0),))))


def test_heartbeats_go_on_without_a_supervisor(desk: Desk) -> None:
    desk.hear(heard.SupervisorLost())
    desk.pass_time(5.0)
    assert len(desk.all(say.SendReport)) == 1


def test_an_agent_that_finds_tasks_asks_how_much_of_their_logs_is_there() -> None:
    desk = Desk(last_heard=99.0, listed=False)
    desk.hear(heard.SupervisorListed((Attached("t1", 1, "job", 0, {"again": False}),)))
    assert desk.all(say.Tail) == []
    desk.register()
    asked = desk.newest(say.Ship)
    assert (asked.offset, asked.data) == (0, b"")
    desk.hear(heard.LogShipped(asked.session, "t1", asked.number, 500))
    assert desk.newest(say.Tail).offset == 500


def test_a_deadline_is_always_ahead_or_acted_upon(desk: Desk) -> None:
    task_id = desk.given()
    desk.started(task_id)
    desk.printed(task_id, record(b"x" * 40_000))
    for event in (heard.SupervisorLost(), heard.SupervisorListed(), heard.Tick()):
        desk.hear(event)
        for _ in range(50):
            before = desk.agent.deadline()
            if before > desk.now:
                break
            desk.hear(heard.Tick())
        assert desk.agent.deadline() > desk.now


# --- preparation ------------------------------------------------------------------------------


def test_a_phase_that_takes_long_is_told_at_once_and_only_once(desk: Desk) -> None:
    task_id = desk.given()
    run = desk.newest(say.Run).number
    desk.hear(heard.TaskEntered(task_id, run, "environment"))
    assert [(news.task_id, news.phase) for news in desk.report().tasks] == [
        (task_id, "environment")
    ]
    assert [held.phase for held in desk.report().inventory] == ["staging"]
    desk.answer_report()
    desk.pass_time(6.0)
    assert desk.report().tasks == ()
    desk.answer_report()
    desk.hear(heard.TaskEntered(task_id, run - 1, "of an earlier run"))
    desk.pass_time(6.0)
    assert desk.report().tasks == ()


def test_what_a_preparation_took_goes_with_the_start_and_with_the_end(desk: Desk) -> None:
    took = Preparation(2.0, (PreparedStep("environment", 2.0),))
    task_id = desk.given()
    desk.hear(heard.TaskStarted(task_id, desk.newest(say.Run).number, 5.0, None, took))
    desk.pass_time(0.1)
    assert [news.preparation for news in desk.report().tasks] == [took]
    desk.answer_report()
    desk.ended(task_id)
    assert [news.preparation for news in desk.report().tasks] == [took]


def test_a_later_agent_knows_it_from_what_the_supervisor_kept() -> None:
    took = Preparation(2.0, (PreparedStep("environment", 2.0),))
    desk = Desk(listed=False)
    note = {"preparation": took.to_json()}
    desk.hear(heard.SupervisorListed((Attached("t7", 7, "job", 0, note),)))
    desk.register()
    desk.pass_time(0.1)
    assert [news.preparation for news in desk.report().tasks] == [took]


def test_a_task_that_is_cancelled_while_it_is_prepared_is_wanted_no_more(desk: Desk) -> None:
    task_id = desk.given()
    run = desk.newest(say.Run).number
    assert desk.agent.wants(task_id, run)
    desk.cancel(task_id)
    assert not desk.agent.wants(task_id, run)
