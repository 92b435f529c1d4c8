"""Two planes on one PostgreSQL database: one schedules, both serve, and their words cross."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpulayer.api import credentials
from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.principals import LOCAL, CredentialKind, Role
from gpulayer.control_plane.enrolment import Grant
from gpulayer.control_plane.wakeups import job_topic, right_topic, worker_topic
from gpulayer.errors import GPULayerError
from tests.support.env import Env, EnvWorker
from tests.support.postgres import PostgresServer
from tests.unit.control_plane.test_gangs import a_gang, a_worker, publish

SOON = 60
"""Seconds for a word to cross, on a busy machine."""


@pytest.fixture
def pair(postgres: PostgresServer) -> Iterator[tuple[Env, Env]]:
    address = postgres.shared()
    one = Env(address=address, home="one", eager=True)
    other = Env(address=address, home="other", beside=one, seed=1, eager=True)
    one.reconcile()
    other.reconcile()
    yield one, other
    one.check()
    other.close()
    one.close()


def schedules(env: Env) -> bool:
    with env.store.read() as reader:
        return reader.scheduling().plane == env.store.plane


def test_one_plane_schedules_and_the_other_lets_it(pair: tuple[Env, Env]):
    one, other = pair
    assert schedules(one)
    assert not schedules(other)
    other.worker()
    other.submit()
    assert other.run_pass() == 0


def test_a_job_of_one_plane_runs_on_a_worker_of_the_other(pair: tuple[Env, Env]):
    one, other = pair
    worker = other.worker(gpus=2)
    with other.plane.wakeups.subscribe(worker_topic("w1")) as parked:
        job = one.submit(gpus=1)
        assert parked.wait(SOON)
    assert [work.job_id for work in worker.acquire().assignments] == [job]
    with one.plane.wakeups.subscribe(job_topic(job)) as waiting:
        worker.start(job)
        worker.finish(job, log=b"done\n")
        assert waiting.wait(SOON)
    assert one.state(job) == "succeeded"
    assert one.plane.workers()[0]["state"] == other.plane.workers()[0]["state"]


def test_a_job_of_the_plane_that_does_not_schedule_is_placed_by_the_one_that_does(
    pair: tuple[Env, Env],
):
    one, other = pair
    worker = other.worker()
    with other.plane.wakeups.subscribe(worker_topic("w1")) as parked:
        job = other.submit()
        assert parked.wait(SOON)
    worker.acquire()
    worker.start(job)
    with other.plane.wakeups.subscribe(worker_topic("w1")) as parked:
        one.plane.cancel(job).result(0)
        assert parked.wait(SOON)
    assert [order.task_id for order in worker.acquire().cancel] == [other.live_task(job).id]
    worker.finish(job, outcome="cancelled")
    assert other.state(job) == "cancelled"


def test_what_a_worker_of_the_other_plane_holds_is_not_given_out_again(pair: tuple[Env, Env]):
    one, other = pair
    worker = other.worker(cores=1)
    with other.plane.wakeups.subscribe(worker_topic("w1")) as parked:
        first = one.submit()
        assert parked.wait(SOON)
    worker.acquire()
    worker.start(first)
    second = one.submit()
    one.plane.cancel(first).result(0)
    one.reconcile()
    one.clock.advance(90)  # its worker does not end it: past all graces the plane gives it up
    worker.report()
    one.advance(2)
    assert one.state(first) == "cancelled"
    worker.say(worker.last_report)
    assert one.state(second) == "queued"
    worker.held.clear()
    with one.plane.wakeups.subscribe(job_topic(second)) as placed:
        worker.report()
        assert placed.wait(SOON)
    assert one.state(second) == "scheduled"


def test_a_plane_that_commits_nothing_is_followed_and_its_late_words_are_not_written(
    pair: tuple[Env, Env],
):
    one, other = pair
    worker = other.worker()
    assert one.news is not None
    one.news.close()  # it hears nothing any more, and does nothing
    other.reconcile()
    one.clock.advance(9)
    other.reconcile()
    assert schedules(one)
    one.clock.advance(1)
    other.reconcile()
    assert schedules(other)
    job = other.submit()
    assert other.state(job) == "scheduled"
    before = other.live_task(job)
    assert one.run_pass() == 0
    assert one.reconcile() == set()
    assert other.live_task(job) == before
    worker.acquire()
    worker.start(job)
    worker.finish(job)


def test_a_plane_that_is_at_work_is_not_followed(pair: tuple[Env, Env]):
    one, other = pair
    for _ in range(30):
        one.clock.advance(1)
        one.reconcile()
        other.reconcile()
    assert schedules(one)


def test_a_plane_that_goes_in_good_order_is_followed_at_once(pair: tuple[Env, Env]):
    one, other = pair
    one.plane.resign()
    other.reconcile()
    assert schedules(other)
    one.reconcile()
    assert schedules(other)


def test_the_next_plane_of_the_same_home_follows_at_once(
    pair: tuple[Env, Env], postgres: PostgresServer
):
    one, _ = pair
    again = Env(address=postgres.url("shared"), home="one", beside=one)
    again.reconcile()
    assert schedules(again)
    again.store.close()


def test_fences_grow_from_epoch_to_epoch(pair: tuple[Env, Env]):
    one, other = pair
    worker = other.worker()
    other.store.write(lambda tx: tx.next_fence()).result()  # its block begins below the other's
    fences = []
    for env in (one, other, one, other):
        if not schedules(env):
            (one if env is other else other).plane.resign()
            env.reconcile()
        assert schedules(env)
        job = env.submit()
        fences.append(env.live_task(job).fence)
        worker.acquire()
        worker.start(job)
        worker.finish(job)
    assert fences == sorted(set(fences))


def test_a_fence_that_nobody_here_gave_is_passed_over_by_the_plane_that_schedules(
    pair: tuple[Env, Env],
):
    one, other = pair
    worker = other.worker()
    job = one.submit()
    fence = one.live_task(job).fence
    worker.acquire()
    held = worker.task(job)
    stranger = type(held)("unknown-task", fence + 5, "running")
    worker.held[stranger.task_id] = stranger
    worker.register()
    assert not schedules(one)
    one.reconcile()  # it notices
    one.reconcile()  # and stands again
    assert schedules(one)
    assert one.live_task(one.submit()).fence > fence + 5


def test_a_worker_of_the_other_plane_has_its_whole_lease(pair: tuple[Env, Env]):
    """What this plane knows of it may be as old as the rhythm of writing it down."""
    one, other = pair
    worker = other.worker()
    job = one.submit(retries=1)
    worker.acquire()
    worker.start(job)
    one.clock.advance(9.5)  # not yet due: heard and not written down
    worker.report()
    one.reconcile()
    for _ in range(29):
        one.clock.advance(1)
        one.reconcile()
        other.reconcile()
    assert one.state(job) == "running"
    for _ in range(15):
        one.clock.advance(1)
        one.reconcile()
        other.reconcile()
    assert one.state(job) == "queued"


def test_a_worker_that_reports_in_its_rhythm_stays(pair: tuple[Env, Env]):
    one, other = pair
    worker = other.worker()
    job = one.submit(retries=1)
    worker.acquire()
    worker.start(job)
    for second in range(120):
        one.clock.advance(1)
        one.reconcile()
        if second % 5 == 0:
            worker.report()
    assert one.state(job) == "running"
    view = {row["id"]: row for row in one.plane.workers()}["w1"]
    assert view["state"] == {row["id"]: row for row in other.plane.workers()}["w1"]["state"]


def test_a_worker_that_moves_is_one_worker(pair: tuple[Env, Env]):
    one, other = pair
    worker = other.worker()
    job = one.submit()
    worker.acquire()
    worker.start(job)
    worker.env = one
    assert not worker.report().ok
    worker.register()
    assert worker.report().ok
    with other.store.read() as reader:
        assert len(reader.workers()) == 1
        assert len(reader.live_tasks(worker_id=WorkerId("w1"))) == 1
    other.plane.workers()
    worker.env = other
    assert not worker.report().ok
    worker.register()
    one.reconcile()
    worker.finish(job)
    assert one.state(job) == "succeeded"


def test_a_far_worker_that_is_taken_away_is_not_counted_on(pair: tuple[Env, Env]):
    one, other = pair
    other.worker()
    assert len(one.plane.workers()) == 1
    other.store.write(lambda tx: tx.delete_worker(WorkerId("w1"))).result()
    one.reconcile()
    job = one.submit()
    assert one.state(job) == "queued"


def test_a_drained_worker_of_the_other_plane_gets_nothing(pair: tuple[Env, Env]):
    one, other = pair
    other.worker()
    one.plane.drain("w1").result(0)
    job = one.submit()
    assert one.state(job) == "queued"
    other.plane.drain("w1", draining=False).result(0)
    one.run_pass()
    assert one.state(job) == "scheduled"


def test_who_scheduled_before_says_again_why_a_job_waits(pair: tuple[Env, Env]):
    one, other = pair
    worker = other.worker(cores=1)
    first, second = one.submit(), one.submit()
    one.plane.resign()
    other.reconcile()
    worker.acquire()
    worker.start(first)
    worker.finish(first)
    assert {one.state(first), one.state(second)} == {"succeeded", "scheduled"}
    assert other.plane.decision(second)["outcome"] == "placed"


def test_what_is_revoked_at_one_plane_is_refused_at_the_other_at_once(pair: tuple[Env, Env]):
    one, other = pair
    shown = credentials.make(CredentialKind.CLIENT, one.ids).presented
    row = one.plane.mint(shown, Grant(Role.VIEWER, "person"), LOCAL).result(0)
    principal = other.plane.authenticate(shown)  # from here on it believes it for a while
    with other.plane.wakeups.subscribe(right_topic(row.id)) as held:
        one.plane.revoke(row.id, LOCAL).result(0)
        assert held.wait(SOON)
    for look in (lambda: other.plane.authenticate(shown), lambda: other.plane.require(principal)):
        with pytest.raises(GPULayerError) as refused:
            look()
        assert refused.value.code == "unauthorized"


def test_a_gang_whose_nodes_speak_with_two_planes_meets(pair: tuple[Env, Env]):
    one, other = pair
    first, second = a_worker(one, "a", address="10.0.0.1"), a_worker(other, "b")
    with one.plane.wakeups.subscribe(worker_topic("a")) as parked:
        job = a_gang(other)
        assert parked.wait(SOON)
    assert {task.worker_id for task in other.tasks(job)} == {"a", "b"}
    assert second.acquire().assignments == ()
    (zero,) = first.acquire().assignments
    with other.plane.wakeups.subscribe(worker_topic("b")) as parked:
        publish(first, job)
        assert parked.wait(SOON)
    (node,) = second.acquire().assignments
    assert (zero.rank, node.rank) == (0, 1)
    assert node.gang is not None
    assert node.gang["rendezvous"] is not None
    second.start(job)
    assert one.state(job) == "running"
    for worker in (second, first):
        worker.finish(job)
    assert other.state(job) == "succeeded"


def test_13_two_machines_with_one_credential_at_two_planes(pair: tuple[Env, Env]):
    one, other = pair
    older = one.worker()
    other.reconcile()
    newer = EnvWorker(other, "w1", older.capabilities)
    newer.nonce, newer.place = "copy", "elsewhere"
    with pytest.raises(GPULayerError, match="another machine works as") as refused:
        newer.register()
    assert refused.value.code == "name-taken"
    one.reconcile()
    assert older.report().ok is False
    with pytest.raises(GPULayerError) as refused:
        older.register()
    assert refused.value.code == "worker-replaced"
    one.clock.advance(60)
    newer.register()
    one.reconcile()
    assert newer.report().ok
    with pytest.raises(GPULayerError) as refused:
        older.register()
    assert refused.value.code == "worker-replaced"


def test_a_plane_asks_its_own_workers_what_they_keep_and_says_where_the_others_are(
    pair: tuple[Env, Env],
):
    one, other = pair
    other.worker("w1", errands=True)
    one.reconcile()
    asked = one.plane.send_errand("caches", {})
    [told] = one.plane.errand_answers(asked, last=False) or []
    assert (told["name"], told["state"]) == ("w1", "elsewhere")
    assert told["why"].endswith(", the one on other: ask there")
    other.plane.send_errand("caches", {})
    assert len(other.workers["w1"].acquire().errands) == 1
