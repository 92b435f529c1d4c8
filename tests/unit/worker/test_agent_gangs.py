"""What an agent does with the nodes of a gang."""

from __future__ import annotations

from typing import Any

from gpulayer.worker import events as heard, instructions as say
from tests.unit.worker.agent_desk import Desk

PLACE = {"address": "127.0.0.1", "port": 4711, "token": "t"}


def gang(number: int) -> dict[str, Any]:
    return {"id": number, "nodes": [{"worker_id": "w", "name": "w"}] * 2, "rendezvous": None}


def ready() -> Desk:
    desk = Desk()
    desk.register()
    return desk


def test_the_start_of_node_0_tells_where_the_others_find_it() -> None:
    desk = ready()
    task = desk.given(gang=gang(1))
    desk.hear(heard.TaskStarted(task, desk.newest(say.Run).number, 5.0, PLACE))
    desk.pass_time(0.1)
    (news,) = desk.report().tasks
    assert news.rendezvous == PLACE


def test_a_later_agent_tells_it_again() -> None:
    desk = Desk(listed=False)
    note = {"again": False, "kind": "distributed", "gang": 1, "rendezvous": PLACE}
    desk.hear(heard.SupervisorListed((heard.Attached("t9", 9, "job", 0, note),)))
    desk.register()
    desk.pass_time(0.1)
    assert [news.rendezvous for news in desk.report().tasks] == [PLACE]


def test_nodes_of_one_gang_run_side_by_side_and_those_of_another_attempt_wait() -> None:
    desk = ready()
    old = [desk.running(rank=rank, gang=gang(1)) for rank in (0, 1)]
    assert len(desk.all(say.Run)) == 2
    again = desk.given(rank=0, gang=gang(2))
    assert len(desk.all(say.Run)) == 2
    for task in old:
        desk.ended(task)
    assert desk.newest(say.Run).assignment.task_id == again
