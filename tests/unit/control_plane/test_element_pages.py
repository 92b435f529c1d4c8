"""Reading what came of an array: in the order of its elements or of their ends, page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.api.answers import Call, Parked
from gpulayer.api.elements import Elements
from gpulayer.control_plane import element_pages
from gpulayer.control_plane.plane import ControlPlane
from tests.support.env import Env, EnvWorker

FUNCTION = {"kind": "function", "entrypoint": "m:f"}


@pytest.fixture
def env() -> Iterator[Env]:
    with Env() as env:
        yield env


def begun(env: Env, count: int, **array: Any) -> tuple[str, EnvWorker]:
    """An array of a function, all of its elements given out."""
    worker = env.worker(f"for-{count}", cores=count)
    job = env.submit(array={"count": count, **array}, workload=FUNCTION)
    while env.run_pass():
        pass
    worker.acquire()
    return job, worker


def finish(env: Env, worker: EnvWorker, job: str, *indices: int, value: Any = None) -> None:
    for index in indices:
        worker.finish(env.element(job, index), value=json.dumps(value))


def told(page: dict[str, Any]) -> list[int]:
    return [element["index"] for element in page["elements"]]


def test_those_that_ended_are_told_up_to_the_first_that_has_not(env: Env) -> None:
    job, worker = begun(env, 5, first=10, step=10)
    page = env.plane.elements(job, ended=True)
    assert (told(page), page["next"], page["ended"]) == ([], 0, False)
    finish(env, worker, job, 10, 20, 40)
    page = env.plane.elements(job, ended=True, after=page["next"])
    assert (told(page), page["next"]) == ([10, 20], 20)
    assert (page["array"]["succeeded"], page["array"]["running"]) == (3, 2)
    assert told(env.plane.elements(job, ended=True, after=20)) == []
    finish(env, worker, job, 30, 50)
    page = env.plane.elements(job, ended=True, after=20)
    assert (told(page), page["next"], page["ended"]) == ([30, 40, 50], None, True)


def test_those_that_ended_are_told_in_the_order_in_which_they_did(env: Env) -> None:
    job, worker = begun(env, 4)
    other, helper = begun(env, 2)
    finish(env, worker, job, 3, 1)
    finish(env, helper, other, 0, 1)
    page = env.plane.elements(job, by_end=True, limit=1)
    assert told(page) == [3]
    page = env.plane.elements(job, by_end=True, after=page["next"])
    assert (told(page), page["ended"]) == ([1], False)
    finish(env, worker, job, 0, 2)
    page = env.plane.elements(job, by_end=True, after=page["next"])
    assert (told(page), page["next"], page["ended"]) == ([0, 2], None, True)
    assert told(env.plane.elements(job, by_end=True)) == [3, 1, 0, 2]


def test_what_was_never_given_out_is_told_as_cancelled_by_index_alone(env: Env) -> None:
    worker = env.worker(cores=1)
    job = env.submit(array={"count": 3}, workload=FUNCTION)
    env.run_pass()
    worker.acquire()
    finish(env, worker, job, 0)
    env.plane.cancel(job).result(0)
    page = env.plane.elements(job, ended=True)
    assert [element["state"] for element in page["elements"]] == ["succeeded", *["cancelled"] * 2]
    assert (page["next"], page["ended"]) == (None, True)
    assert told(env.plane.elements(job, by_end=True)) == [0]


@pytest.mark.parametrize("by_end", [False, True])
def test_a_page_is_full_with_so_many_bytes_and_goes_on_behind_them(env: Env, by_end: bool) -> None:
    job, worker = begun(env, 5)
    finish(env, worker, job, *range(5), value="x" * (element_pages.PAGE_BYTES // 2))
    after, seen = -1, []
    while after is not None:
        page = env.plane.elements(job, ended=True, by_end=by_end, after=after)
        assert len(page["elements"]) <= 2
        seen += told(page)
        after = page["next"]
    assert seen == [0, 1, 2, 3, 4]


def test_a_retry_tells_what_it_runs_alone(env: Env) -> None:
    job, worker = begun(env, 3)
    finish(env, worker, job, 0, 2)
    worker.finish(env.element(job, 1), 1)
    again = env.plane.retry(job).result(0).id
    assert told(env.plane.elements(again)) == [1]


class Asked(Elements):
    def __init__(self, plane: ControlPlane, job: str) -> None:
        self._plane, self._job = plane, job

    def parked(self, **query: Any) -> Parked:
        text = {name: str(value) for name, value in query.items()}
        found = self.elements(Call({"selector": self._job}, {"ended": "1", **text}))
        assert isinstance(found, Parked)
        return found


def test_who_waits_is_answered_with_the_first_or_gathers_a_page(env: Env) -> None:
    job, worker = begun(env, 4)
    asked = Asked(env.plane, job)
    one = asked.parked(wait=9)
    many = asked.parked(wait=9, gather=0.5, limit=3)
    assert (one.look(False), many.look(False)) == (None, None)
    finish(env, worker, job, 0)
    assert told(one.look(False)) == [0]
    gathering = many.look(False)
    assert (gathering.seconds, gathering.look(False)) == (0.5, None)
    assert told(gathering.look(True)) == [0]
    finish(env, worker, job, 1, 2)
    assert told(gathering.look(False)) == [0, 1, 2]


def test_who_waits_for_nothing_more_is_answered_at_once(env: Env) -> None:
    job, worker = begun(env, 1)
    finish(env, worker, job, 0)
    parked = Asked(env.plane, job).parked(wait=9, gather=0.5, after=0)
    assert told(parked.look(False)) == []
