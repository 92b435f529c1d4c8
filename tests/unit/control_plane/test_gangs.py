"""Gangs on a whole plane, step by step; the numbers are those of the list of races."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpulayer.contracts.capabilities import Interpreter
from gpulayer.contracts.messages import Assignment, TaskReport
from gpulayer.runtime import segments
from tests.support.env import Env, EnvWorker

PLACE = {"address": "10.0.0.1", "port": 4711, "token": "t"}
PYTHON = Interpreter("/usr/bin/python3", "3.12.7", frameworks={"torch": "2.13.0"})


def a_worker(env: Env, name: str, **facts: Any) -> EnvWorker:
    return env.worker(name, interpreters=(PYTHON,), **facts)


def a_gang(env: Env, nodes: int = 2, cores: float = 4, **spec: Any) -> str:
    work = {"kind": "distributed", "entrypoint": "train.py", "num_workers": nodes}
    return env.submit(workload=work, cores=cores, **spec)


def begin(env: Env, cores: float = 4, **spec: Any) -> tuple[EnvWorker, EnvWorker, str]:
    """A gang whose nodes both run."""
    first, second = a_worker(env, "a"), a_worker(env, "b")
    job = a_gang(env, cores=cores, **spec)
    start(env, first, second, job)
    return first, second, job


def start(env: Env, first: EnvWorker, second: EnvWorker, job: str) -> None:
    env.run_pass()
    first.acquire()
    publish(first, job)
    second.acquire()
    second.start(job)


def publish(worker: EnvWorker, job: str) -> None:
    """The start of node 0, with the place to meet."""
    held = worker.task(job)
    news = TaskReport(held.task_id, held.fence, "running", worker.env.clock.now(), rendezvous=PLACE)
    worker.report(news)


def given(worker: EnvWorker) -> list[Assignment]:
    return list(worker.acquire().assignments)


def test_the_first_node_is_handed_out_and_the_others_when_it_says_where_they_meet() -> None:
    with Env() as env:
        first, second = a_worker(env, "a", address="10.0.0.1"), a_worker(env, "b")
        job = a_gang(env)
        env.run_pass()
        assert {task.worker_id for task in env.tasks(job)} == {"a", "b"}
        assert given(second) == []
        (zero,) = given(first)
        assert (zero.rank, zero.gang and zero.gang["rendezvous"]) == (0, None)
        assert zero.gang is not None
        assert zero.gang["nodes"] == [
            {"worker_id": "a", "name": "a", "address": "10.0.0.1"},
            {"worker_id": "b", "name": "b", "address": None},
        ]
        publish(first, job)
        assert env.state(job) == "scheduled"
        (one,) = given(second)
        assert (one.rank, one.gang and one.gang["rendezvous"]) == (1, PLACE)
        second.start(job)
        assert env.state(job) == "running"


def test_nodes_on_one_worker_are_handed_out_in_the_same_way() -> None:
    with Env() as env:
        worker = a_worker(env, "a", cores=4)
        a_gang(env, cores=2)
        env.run_pass()
        (zero,) = given(worker)
        held = worker.held[zero.task_id]
        worker.held[zero.task_id] = type(held)(held.task_id, held.fence, "running")
        now = env.clock.now()
        worker.report(TaskReport(held.task_id, held.fence, "running", now, rendezvous=PLACE))
        (one,) = given(worker)
        assert (zero.rank, one.rank) == (0, 1)


def test_the_place_is_said_once_and_comes_again_with_a_lost_answer() -> None:
    with Env(redeliver_seconds=1.0) as env:
        first, second = a_worker(env, "a"), a_worker(env, "b")
        job = a_gang(env)
        env.run_pass()
        first.acquire()
        publish(first, job)
        other = {**PLACE, "port": 1}
        held = first.task(job)
        first.report(TaskReport(held.task_id, held.fence, "running", 1.0, rendezvous=other))
        assert second.acquire(lost=True).assignments
        env.advance(2)
        (one,) = given(second)
        assert one.gang is not None
        assert one.gang["rendezvous"] == PLACE


def test_17_a_plane_that_restarts_after_the_placement_has_all_of_it() -> None:
    with Env() as env:
        workers = [a_worker(env, "a"), a_worker(env, "b")]
        job = a_gang(env)
        env.run_pass()
        env.restart_plane()
        for worker in workers:
            worker.register()
        workers[0].acquire()
        publish(workers[0], job)
        env.restart_plane()
        for worker in workers:
            worker.register()
        assert [work.rank for work in given(workers[1])] == [1]


def test_23_a_node_lost_before_all_ran_sends_the_whole_back_and_uses_no_attempt() -> None:
    with Env() as env:
        first, second = a_worker(env, "a"), a_worker(env, "b")
        job = a_gang(env)
        env.run_pass()
        first.acquire()
        publish(first, job)
        second.acquire()
        second.report()
        reply = second.register(restarted=True, keeps=False)
        assert reply.kill == ()
        assert (env.state(job), env.job(job).attempt) == ("queued", 0)
        assert {task.state for task in env.tasks(job)} == {"lost"}
        zero = first.task(job).task_id
        assert first.report().kill == (zero,)
        first.report()  # it is gone
        env.advance(2)
        env.run_pass()
        assert env.state(job) == "scheduled"
        assert env.job(job).attempt == 1


def test_24_a_node_that_fails_while_another_is_staging_ends_it() -> None:
    with Env() as env:
        first, second = a_worker(env, "a"), a_worker(env, "b")
        job = a_gang(env)
        env.run_pass()
        first.acquire()
        publish(first, job)
        second.acquire()
        first.finish(job, code=3, failed_rank=0, failed_at=env.clock.now(), message="rank 0: 3")
        assert env.state(job) == "scheduled"
        (order,) = second.acquire().cancel
        assert (order.task_id, order.mode) == (second.task(job).task_id, "term")
        second.finish(job, code=143, outcome="cancelled")
        assert (env.state(job), env.job(job).exit_code) == ("failed", 3)
        assert env.job(job).message == "rank 0: 3"


def test_one_that_may_start_again_does_as_a_whole_and_keeps_nothing_of_the_attempt() -> None:
    with Env() as env:
        first, second, job = begin(env, resume={"max_restarts": 1})
        digest, size = env.artifacts.put_stream([b"model"])
        model = {"path": "model", "digest": digest, "size": size}
        second.finish(job, code=3, failed_rank=1, message="rank 1: 3", outputs=(model,))
        (order,) = first.acquire().cancel
        assert order.mode == "term"
        assert [output["path"] for output in env.plane.job(job)["outputs"]] == ["node1/model"]
        first.finish(job, code=143, outcome="cancelled")
        row = env.job(job)
        assert (row.state, row.attempt, row.cancel_requested_at) == ("queued", 1, None)
        env.advance(2)
        start(env, first, second, job)
        assert env.state(job) == "running"
        second.finish(job, code=0)
        first.finish(job, code=0, outputs=(model,))
        assert (env.state(job), env.job(job).attempt) == ("succeeded", 2)
        assert [output["path"] for output in env.plane.job(job)["outputs"]] == ["model"]


def test_one_that_may_not_after_that_cause_ends_and_a_cancel_is_the_end() -> None:
    with Env() as env:
        first, second, job = begin(env, resume={"max_restarts": 1, "on": ["worker_lost"]})
        second.finish(job, code=3)
        first.finish(job, code=143, outcome="cancelled")
        assert env.state(job) == "failed"
    with Env() as env:
        first, second, job = begin(env, resume={"max_restarts": 1})
        env.plane.cancel(job).result(0)
        second.finish(job, code=143, outcome="cancelled")
        first.finish(job, code=143, outcome="cancelled")
        assert env.state(job) == "cancelled"


def test_a_node_that_is_lost_while_all_run_starts_the_whole_again() -> None:
    with Env() as env:
        first, second, job = begin(env, resume={"max_restarts": 1})
        second.register(restarted=True, keeps=False)
        first.acquire()
        first.finish(job, code=143, outcome="cancelled")
        assert (env.state(job), env.job(job).lost) == ("queued", 1)


def test_24_a_node_that_was_not_handed_out_yet_is_ended_too() -> None:
    with Env() as env:
        first, second = a_worker(env, "a"), a_worker(env, "b")
        job = a_gang(env)
        env.run_pass()
        first.acquire()
        first.finish(job, code=126, reason="preparation", message="no such secret")
        told = second.acquire()
        assert [work.rank for work in told.assignments] == [1]
        assert [order.mode for order in told.cancel] == ["term"]
        second.finish(job, code=130, outcome="cancelled", started_at=None)
        assert env.state(job) == "failed"
        assert env.job(job).message == "node 0: no such secret"


def test_25_of_two_gangs_that_need_each_others_last_worker_one_is_placed() -> None:
    with Env() as env:
        for name in "ab":
            a_worker(env, name)
        jobs = [a_gang(env), a_gang(env)]
        env.run_pass()
        assert sorted(map(env.state, jobs)) == ["queued", "scheduled"]
        assert sorted(len(env.tasks(job)) for job in jobs) == [0, 2]


def test_26_two_nodes_lost_at_once_are_one_end() -> None:
    with Env() as env:
        _, _, job = begin(env)
        env.advance(700, step=5)
        assert env.state(job) == "failed"
        assert env.job(job).reason == "worker_lost"
        assert env.story(job).count("finished") == 1


def test_a_silent_node_is_given_up_after_a_lease_once_another_has_failed() -> None:
    with Env() as env:
        first, _, job = begin(env)
        env.advance(10)
        first.finish(job, code=1, failed_rank=0, failed_at=env.clock.now(), message="rank 0: 1")
        assert env.state(job) == "running"
        for _ in range(8):
            env.advance(5)
            first.report()
        assert env.state(job) == "failed"
        assert env.job(job).reason == "worker_lost"


@pytest.mark.parametrize("mode", ["int", "kill"])
def test_a_cancel_reaches_all_nodes_and_the_job_waits_for_them(mode: str) -> None:
    with Env() as env:
        first, second, job = begin(env)
        env.plane.cancel(job, mode=mode).result(0)
        for worker in (first, second):
            assert [order.mode for order in worker.acquire().cancel] == [mode]
            assert env.state(job) == "running"
            worker.finish(job, code=130, outcome="cancelled")
        assert (env.state(job), env.job(job).exit_code) == ("cancelled", 130)


def test_28_an_old_attempts_place_is_not_the_new_ones() -> None:
    with Env() as env:
        first, second, job = begin(env)
        taken = {"reason": "port_taken", "message": "port 4711 was taken"}
        first.finish(job, code=125, **taken)
        assert (env.state(job), env.job(job).attempt) == ("queued", 0)
        old = second.task(job).task_id
        assert second.report().kill == (old,)
        second.report()  # it is gone
        env.advance(3)
        env.run_pass()
        (zero,) = [w for worker in (first, second) for w in given(worker)]
        assert zero.rank == 0
        assert zero.gang is not None
        assert zero.gang["rendezvous"] is None


def test_the_log_of_a_gang_is_read_in_whole_records_from_all_nodes() -> None:
    with Env() as env:
        first, second, job = begin(env)
        said: dict[int, bytes] = {}
        for rank, worker in enumerate((first, second)):
            data = b"".join(
                segments.encode(segments.STDOUT, rank, 0, 1.0, b"%d:%d\n" % (rank, n))
                for n in range(50)
            )
            said[rank] = data
            held = worker.task(job)
            env.plane.append_log(held.task_id, held.fence, 0, data[:301]).result(0)
        cursor, got = "", segments.Reader()
        records = []
        for round_ in range(2):
            part = env.plane.log(job, cursor)
            records += list(got.feed(part.data))
            cursor = part.next
            assert not part.eof
            if round_ == 0:
                for rank, worker in enumerate((first, second)):
                    held = worker.task(job)
                    env.plane.append_log(held.task_id, held.fence, 301, said[rank][301:]).result(0)
        for rank in (0, 1):
            mine = b"".join(r.data for r in records if r.rank == rank)
            assert mine == b"".join(b"%d:%d\n" % (rank, n) for n in range(50))
        assert env.plane.log(job, cursor).data == b""
        for rank, worker in enumerate((first, second)):
            news = worker.ending(worker.task(job))
            worker.report(dataclasses.replace(news, log_size=len(said[rank])))
        part = env.plane.log(job, cursor)
        assert (part.data, part.eof) == (b"", True)
