"""An agent and its supervisor: what is found again, what is lost, what is repeated."""

from __future__ import annotations

from gpulayer.contracts.messages import Exit
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.events import Attached
from tests.unit.worker.agent_desk import Desk, kinds, record


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
