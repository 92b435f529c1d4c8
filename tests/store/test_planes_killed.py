"""The plane that schedules is killed or stopped, wherever it is: the other takes over, and no task
is given out twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from gpulayer.control_plane.wakeups import worker_topic
from tests.support.env import Env
from tests.support.plane_program import PlaneProcess
from tests.support.postgres import PostgresServer

SOON = 60


@pytest.fixture
def here(postgres: PostgresServer) -> Iterator[Env]:
    env = Env(address=postgres.shared(), home="here", eager=True)
    yield env
    env.check()
    env.close()


@pytest.fixture
def there(here: Env, postgres: PostgresServer) -> Iterator[PlaneProcess]:
    process = PlaneProcess(postgres.url("shared"), here.folder)
    yield process
    process.kill()


def take_over(here: Env) -> None:
    """Look, and look again when the time of the other is over."""
    here.reconcile()
    here.clock.advance(here.settings.scheduler_seconds)
    here.reconcile()
    with here.store.read() as reader:
        assert reader.scheduling().plane == here.store.plane


def finish_all(here: Env, worker, *jobs: str) -> None:
    worker.acquire()
    for job in jobs:
        if here.state(job) == "scheduled":
            worker.start(job)
        worker.finish(job)
        assert here.state(job) == "succeeded"
        assert len(here.tasks(job)) == 1, "no task twice"


def test_a_killed_scheduler_is_followed(here: Env, there: PlaneProcess):
    assert there.ask("scheduler") == "me"
    worker = here.worker()
    with here.plane.wakeups.subscribe(worker_topic("w1")) as parked:
        first = there.ask("submit", "first")
        assert parked.wait(SOON)
    worker.acquire()
    worker.start(first)
    there.process.send_signal(signal.SIGKILL)
    there.process.wait(60)
    second = here.submit()
    here.reconcile()
    assert here.state(second) == "queued"
    take_over(here)
    assert here.state(first) == "running"
    finish_all(here, worker, first, second)


@pytest.mark.parametrize("point", ["executed", "commit", "committed", "answer"])
def test_a_scheduler_killed_in_a_commit_leaves_all_or_nothing(
    here: Env, there: PlaneProcess, point: str
):
    worker = here.worker()
    warm = there.ask("submit", "warm")  # it has a block of fences now
    there.say("die", point)
    assert there.ask("submit", "job") == ""
    there.process.wait(60)
    take_over(here)
    with here.store.read() as reader:
        kept = reader.job_by_key("job")
    assert (kept is not None) == (point in ("committed", "answer"))
    job = kept.id if kept is not None else here.submit(key="job")
    assert here.submit(name="job", key=None) != job
    (other,) = {row["id"] for row in here.plane.jobs()} - {job, warm}
    finish_all(here, worker, warm, job, other)


@pytest.mark.parametrize("point", ["commit", "committed"])
def test_a_scheduler_stopped_past_its_time_writes_nothing_more(
    here: Env, there: PlaneProcess, point: str
):
    """In the middle of a transaction (it holds the turn, until the server ends it), and after."""
    worker = here.worker()
    warm = there.ask("submit", "warm")
    there.say("stop", point)
    there.say("submit", "late")
    there.wait_until_stopped()
    mine = here.submit(name="mine")  # waits for the turn if need be
    take_over(here)
    assert here.state(mine) == "scheduled"
    before = here.tasks(mine)
    there.resume()
    late = there.hear()
    assert there.ask("passes") == "0"
    assert there.ask("scheduler") == "not me"
    assert here.tasks(mine) == before
    here.run_pass()
    assert len(here.tasks(late)) == 1
    finish_all(here, worker, warm, mine, late)
