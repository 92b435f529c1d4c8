"""An agent and its plane: sessions, reports, and what it does while nobody answers."""

from __future__ import annotations

from gpulayer.contracts.messages import Acquired
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.events import Attached
from tests.unit.worker.agent_desk import Desk, kinds


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
