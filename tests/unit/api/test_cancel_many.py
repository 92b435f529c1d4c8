"""Asking for the end of many jobs in one request, as persons with different rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpulayer.control_plane.submission import Submission
from tests.support.env import Env
from tests.support.knocking import Knocking

PATH = "/v1/jobs/cancel"


@pytest.fixture
def door() -> Iterator[Knocking]:
    with Env() as env:
        door = Knocking(env)
        yield door
        door.close()


def submitted(door: Knocking, owner: str) -> str:
    asked = Submission(door.env.spec(), owner=owner)
    return str(door.env.plane.submit([asked]).result(0)[0].id)


def test_all_are_those_that_the_caller_may_end(door: Knocking) -> None:
    mine, theirs = submitted(door, "me"), submitted(door, "you")
    status, told = door.ask("POST", PATH, {"all": True}, token=door.token("submitter", "me"))
    assert (status, [job["id"] for job in told["jobs"]]) == (200, [mine])
    assert [door.env.state(job) for job in (mine, theirs)] == ["cancelled", "queued"]
    status, told = door.ask("POST", PATH, {"all": True}, token=door.token("operator", "me"))
    assert (status, [job["id"] for job in told["jobs"]]) == (200, [theirs])


def test_one_that_is_anothers_keeps_all_of_them(door: Knocking) -> None:
    mine, theirs = submitted(door, "me"), submitted(door, "you")
    token = door.token("submitter", "me")
    status, _ = door.ask("POST", PATH, {"jobs": [mine, theirs]}, token=token)
    assert status == 403
    assert [door.env.state(job) for job in (mine, theirs)] == ["queued", "queued"]


def test_the_last_is_the_callers_own(door: Knocking) -> None:
    mine, theirs = submitted(door, "me"), submitted(door, "you")
    token = door.token("submitter", "me")
    status, told = door.ask("POST", PATH, {"jobs": ["last"]}, token=token)
    assert (status, [job["id"] for job in told["jobs"]]) == (200, [mine])
    assert door.env.state(theirs) == "queued"


def test_it_is_told_which_had_ended(door: Knocking) -> None:
    jobs = [submitted(door, ""), submitted(door, "")]
    door.env.plane.cancel(jobs[0]).result(0)
    _, told = door.ask("POST", PATH, {"jobs": jobs, "mode": "kill"}, private=True)
    assert [job["state"] for job in told["jobs"]] == ["cancelled", "cancelled"]
    assert told["had_ended"] == jobs[:1]


@pytest.mark.parametrize(
    "body", [{}, {"all": False}, {"all": True, "jobs": []}, {"jobs": "a"}, {"jobs": [1]}]
)
def test_a_body_that_means_nothing_ends_nothing(door: Knocking, body: object) -> None:
    job = submitted(door, "me")
    for who in ({"private": True}, {"token": door.token("submitter", "me")}):
        status, told = door.ask("POST", PATH, body, **who)  # type: ignore[arg-type]
        assert (status, told["error"]["code"]) in ((400, "usage"), (404, "job-not-found")), told
    assert door.env.state(job) == "queued"
