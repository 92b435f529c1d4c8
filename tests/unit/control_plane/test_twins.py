"""Two machines by one worker's name and credential: race 13 of the list of the state machines."""

from __future__ import annotations

import pytest

from gpulayer.contracts.messages import Acquire, Report
from gpulayer.contracts.principals import CredentialKind
from gpulayer.control_plane.enrolment import Enrolment
from gpulayer.errors import RefusedError
from tests.support.env import Env, EnvWorker
from tests.support.knocking import Knocking


def a_copy(env: Env, of: EnvWorker) -> EnvWorker:
    """The same disk in another machine."""
    copy = EnvWorker(env, of.name, of.capabilities)
    copy.nonce, copy.place = f"{of.nonce} of the copy", "elsewhere"
    return copy


def refused(worker: EnvWorker) -> str:
    with pytest.raises(RefusedError) as raised:
        worker.register()
    return raised.value.code


def test_13_the_newer_one_waits_for_the_end_of_the_older_ones_lease() -> None:
    with Env() as env:
        older = env.worker()
        job = env.submit(retries=1)
        env.run_pass()
        older.acquire()
        older.start(job)
        newer = a_copy(env, older)
        env.advance(3)
        assert refused(newer) == "name-taken"
        for _ in range(26):
            env.advance(1)
            assert refused(newer) == "name-taken"
            assert env.run_pass() == 0
            assert env.state(job) == "running"
        env.advance(1)
        newer.register()
        env.advance(2)  # the job waits a moment before it goes again
        env.run_pass()
        (given,) = newer.acquire().assignments
        assert (given.job_id, given.attempt) == (job, 2)


def test_13_the_older_one_is_sent_away_at_its_next_word_and_gets_nothing_more() -> None:
    with Env() as env:
        older = env.worker()
        newer = a_copy(env, older)
        with env.plane.wakeups.subscribe("worker:w1") as ticket:
            assert refused(newer) == "name-taken"
            assert ticket.wait(0), "what is parked for it is answered"
        env.submit()
        assert env.run_pass() == 0
        assert env.plane.acquire_now(Acquire("w1", older.incarnation, seq=1)).result(0).ok is False
        assert env.plane.report(Report("w1", older.incarnation, 9)).result(0).ok is False
        assert refused(older) == "worker-replaced"


@pytest.mark.parametrize("restarts", [False, True], ids=["", "new plane"])
def test_13_neither_pushes_the_other_out_again(restarts: bool) -> None:
    with Env() as env:
        older = env.worker()
        newer = a_copy(env, older)
        assert refused(newer) == "name-taken"
        if restarts:
            env.restart_plane()
            assert refused(older) == "worker-replaced"
        env.advance(31)
        newer.register()
        if restarts:
            env.restart_plane()
        older.nonce += "'"  # its next process is no better
        assert refused(older) == "worker-replaced"
        newer.register()
        assert newer.report().ok


def test_13_one_that_was_off_for_long_does_not_come_between() -> None:
    """Cut off, it has heard nothing of the newer one."""
    with Env() as env:
        older = env.worker()
        env.advance(60)
        newer = a_copy(env, older)
        newer.register()
        assert refused(older) == "worker-replaced"
        assert newer.report().ok


def test_a_worker_that_starts_anew_on_its_machine_waits_for_nobody() -> None:
    with Env() as env:
        worker = env.worker()
        worker.register(restarted=True)
        assert worker.report().ok


def test_whoever_joins_again_by_a_line_is_taken_whoever_followed_it() -> None:
    with Env() as env:
        door = Knocking(env)
        code, mine, fresh = (door.code(), *(door.made(CredentialKind.WORKER) for _ in range(2)))
        env.plane.enrol(Enrolment(code.presented, mine.presented, "w1")).result(0)
        older = env.worker()
        env.advance(60)
        a_copy(env, older).register()
        assert refused(older) == "worker-replaced"
        again = Enrolment(door.code().presented, fresh.presented, "w1", previous=mine.presented)
        env.plane.enrol(again).result(0)
        assert refused(older) == "name-taken", "the other one may not know it yet"
        env.advance(31)
        older.register()
        assert older.report().ok
        door.close()
