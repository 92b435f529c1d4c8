"""Reading an array's results: how many questions that takes, and what a terminal shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gpulayer.api.answers import Call, settle_blocking
from gpulayer.api.elements import Elements
from gpulayer.contracts.changes import Changes
from gpulayer.contracts.elements import CHUNK, FRESH, SUCCEEDED
from gpulayer.contracts.records import Chunk, Result
from gpulayer.contracts.states import JobState
from gpulayer.control_plane.ports import commit
from gpulayer.sdk.client import Client
from gpulayer.sdk.elements import ended
from gpulayer.sdk.gathering import MOST_SECONDS, gather_seconds
from gpulayer.sdk.job import Job
from gpulayer.sdk.progress import line
from tests.support.env import Env


class Plane(Elements):
    """Answers a client, and counts."""

    def __init__(self, env: Env) -> None:
        self._plane = env.plane
        self.questions: list[dict[str, str]] = []
        self.path = Client.path

    def call(self, method: str, path: str, *, park: float = 0.0) -> Any:
        split = urlsplit(path)
        query = dict(parse_qsl(split.query))
        self.questions.append(query)
        answer = self.elements(Call({"selector": split.path.split("/")[3]}, query))
        return settle_blocking(answer, self._plane.wakeups)


@pytest.fixture
def env() -> Iterator[Env]:
    with Env() as env:
        yield env


def array(env: Env, count: int) -> str:
    """One of which the last element never began, and the others succeeded, the first one last."""
    job = env.submit(array={"count": count}, workload={"kind": "function", "entrypoint": "m:f"})
    well = count - 1
    progress = replace(env.progress(job), waiting=1, succeeded=well, next=well)
    results = tuple(
        Result(progress.job_id, index, 1, JobState.SUCCEEDED, 0, value=str(index))
        for index in reversed(range(well))
    )
    letters = SUCCEEDED * well + FRESH
    chunks = tuple(
        Chunk(progress.job_id, at // CHUNK, letters[at : at + CHUNK])
        for at in range(0, count, CHUNK)
    )
    changes = Changes(results=results, chunks=chunks, progress=(progress,))
    env.store.write(lambda tx: commit(tx, changes)).result(30)
    env.plane.cancel(job).result(0)
    return job


@pytest.mark.parametrize(("by_end", "most"), [(False, 3), (True, 4)])
def test_a_thousand_results_are_one_question(env: Env, by_end: bool, most: int) -> None:
    """As they ended, one more asks for those that never began."""
    job, plane = array(env, 2_500), Plane(env)
    handle = Job(plane, {"id": job})  # type: ignore[arg-type]
    indices = [element.index for element in ended(handle, by_end=by_end)]
    assert indices == ([*range(2_498, -1, -1), 2_499] if by_end else [*range(2_500)])
    assert len(plane.questions) == most


def test_who_reads_lets_ends_gather_in_proportion_to_what_is_left() -> None:
    assert [gather_seconds(left) for left in (0, 15, 16, 32)] == [0, 0, 0.005, 0.01]
    assert gather_seconds(1_000_000) == MOST_SECONDS


@pytest.mark.parametrize(
    ("counts", "columns", "shown"),
    [
        ({}, 80, "f [........................] 0/8"),
        ({"running": 2, "succeeded": 2}, 80, "f [######..................] 2/8, 2 running"),
        ({"succeeded": 5, "failed": 2, "timed_out": 1}, 80, f"f [{'#' * 24}] 8/8, 3 failed"),
        ({"succeeded": 8}, 10, "f [#######"),
        ({"succeeded": 8}, -1, ""),
    ],
)
def test_the_line_tells_how_far_it_is(counts: dict[str, int], columns: int, shown: str) -> None:
    none = dict.fromkeys(("running", "succeeded", "failed", "timed_out"), 0)
    told = {**none, **counts}
    told |= {"elements": 8, "waiting": 8 - sum(told.values())}
    assert line("f", told, columns) == shown
