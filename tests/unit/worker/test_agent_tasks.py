"""A task on its way through an agent: prepared, begun, its log shipped, its end told."""

from __future__ import annotations

import base64

from gpulayer.contracts.messages import Exit, Preparation, PreparedStep
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.events import Attached
from gpulayer.worker.refusals import TRIES
from tests.unit.worker.agent_desk import Desk, kinds, record


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
    assert desk.agent.starts_by(task_id, run) is not None
    desk.cancel(task_id)
    assert desk.agent.starts_by(task_id, run) is None
