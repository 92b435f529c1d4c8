"""Tasks that were sent ahead of their room: whose they take, and how few reports that costs."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.worker import instructions as say
from gpulayer.worker.news import END_NEWS_SECONDS
from tests.unit.worker.agent_desk import Desk


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.register()
    return desk


def runs(desk: Desk) -> list[str]:
    return [run.assignment.task_id for run in desk.all(say.Run)]


def ahead(desk: Desk, count: int = 1, **fields: Any) -> list[str]:
    """Tasks that are sent before there is room for them."""
    sent = [desk.assignment(f"ahead-{n}", ahead=True, **fields) for n in range(count)]
    desk.acquired(*sent)
    return [one.task_id for one in sent]


def cores(count: float) -> dict[str, Any]:
    command = {"kind": "command", "command": ["true"]}
    return {"spec": {"workload": command, "resources": {"cpu_cores": count}}}


def test_it_waits_and_begins_in_the_room_of_the_next_that_ends(desk: Desk) -> None:
    first = desk.running(job_id="first")
    second, third = ahead(desk, 2)
    assert runs(desk) == [first]
    assert desk.agent.slots.get(second).line().ahead
    desk.ended(first)
    assert runs(desk) == [first, second]
    lines = {line.task_id: line.ahead for line in desk.report().inventory}
    assert lines == {first: False, second: False, third: True}
    assert [news.task_id for news in desk.report().tasks] == [first]


def test_a_room_of_which_the_plane_has_heard_is_not_taken(desk: Desk) -> None:
    first = desk.running(job_id="first")
    desk.ended(first)
    assert desk.newest(say.SendReport).message.tasks[0].task_id == first
    (late,) = ahead(desk)
    assert late not in runs(desk)
    desk.answer_report()
    assert late not in runs(desk)


def test_nor_is_it_once_that_report_was_lost(desk: Desk) -> None:
    first = desk.running(job_id="first")
    desk.ended(first)
    desk.lose_call()
    desk.pass_time(1.0)
    desk.register()
    (late,) = ahead(desk)
    assert late not in runs(desk)


def test_a_room_of_another_size_or_with_devices_is_not_taken(desk: Desk) -> None:
    small = desk.running(job_id="small", **cores(0.5))
    with_devices = desk.running(job_id="gpu", gpus=("GPU-0",))
    (waiting,) = ahead(desk)
    desk.ended(small)
    desk.ended(with_devices)
    assert waiting not in runs(desk)


def test_the_plane_says_that_there_is_room_by_sending_it_again(desk: Desk) -> None:
    assignment = desk.assignment("late", ahead=True)
    desk.acquired(assignment)
    assert assignment.task_id not in runs(desk)
    plain = type(assignment)(**{**assignment.to_json(), "ahead": False})
    desk.acquired(plain)
    assert assignment.task_id in runs(desk)
    desk.acquired(assignment)  # a copy that comes late changes nothing
    assert not desk.agent.slots.get(assignment.task_id).ahead


def test_taken_back_it_ends_as_handed_back_and_leaves_no_room(desk: Desk) -> None:
    first = desk.running(job_id="first")
    sent = [desk.assignment(f"ahead-{n}", ahead=True) for n in range(2)]
    desk.acquired(*sent)
    desk.acquired(retract=(sent[0],))
    assert runs(desk) == [first]
    (news,) = desk.report().tasks
    assert news.exit is not None
    assert news.exit.reason == "retracted"
    assert [line.ahead for line in desk.report().inventory] == [False, True, True]


def test_cancelled_it_never_begins(desk: Desk) -> None:
    first = desk.running(job_id="first")
    (waiting,) = ahead(desk)
    desk.cancel(waiting)
    desk.ended(first)
    assert runs(desk) == [first]


def test_ends_share_a_report_while_more_wait_than_run(desk: Desk) -> None:
    first = desk.running(job_id="first")
    waiting = ahead(desk, 5)
    before = len(desk.all(say.SendReport))
    for task_id in [first, *waiting[:2]]:
        if task_id != first:
            desk.started(task_id)
        desk.ended(task_id)
    assert len(desk.all(say.SendReport)) == before
    desk.pass_time(END_NEWS_SECONDS)
    assert [news.task_id for news in desk.report().tasks] == [first, *waiting[:2]]


def test_the_last_ends_wait_for_nobody(desk: Desk) -> None:
    first = desk.running(job_id="first")
    (last,) = ahead(desk)
    desk.ended(first)
    assert [news.task_id for news in desk.report().tasks] == [first]
    desk.answer_report()
    desk.started(last)
    desk.ended(last)
    assert [news.task_id for news in desk.report().tasks] == [last]


def test_a_start_is_wanted_until_its_authority_is_over(desk: Desk) -> None:
    task_id = desk.given(job_id="slow")
    until = desk.agent.starts_by(task_id, 1)
    assert until is not None
    assert desk.now < until < desk.now + 30.0
    desk.cancel(task_id)
    assert desk.agent.starts_by(task_id, 1) is None
