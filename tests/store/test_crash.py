"""kill -9 at every point of a commit: what was answered is there, what is there is whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpulayer.storage import Store
from tests.support.postgres import PostgresServer
from tests.support.records import end, job_of, place, submit

POINTS = ("begin", "statement", "executed", "commit", "committed", "answer")
ROOT = Path(__file__).parents[2]

# Submits, places and ends jobs; says each answer; dies at the nth passing of a point.
CHILD = """
import os, signal, sys
from gpulayer.storage import Store
from tests.support.records import a_job, a_task, ending, job_of, placement, submission

path, point, nth, inline = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "inline"
passed = 0

def fault(here):
    global passed
    passed += here == point
    if passed == nth:
        os.kill(os.getpid(), signal.SIGKILL)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def placed(tx, job_id):
    task = a_task(tx.next_fence(), job_id)
    assert tx.apply(placement(tx.job(job_id), task))
    return task

store = Store(path, inline=inline, fault=fault)
for n in range(1000):
    name = f"job-{n}"
    store.write(lambda tx: tx.apply(submission(a_job(name, spec={"n": n}))), durable=True).result()
    say("submitted", name)
    task = store.write(lambda tx: placed(tx, name)).result()
    say("placed", name, task.fence)
    job = job_of(store, name)
    store.write(lambda tx: tx.apply(ending(job, task, code=n % 3)), durable=True).result()
    say("ended", name, n % 3)
"""


@dataclass(frozen=True)
class Answered:
    submitted: list[str]
    fences: dict[str, int]
    codes: dict[str, int]


def run_and_kill(path: str, point: str, nth: int, mode: str) -> Answered:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, path, point, str(nth), mode],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return Answered(
        [words[1] for words in lines if words[0] == "submitted"],
        {words[1]: int(words[2]) for words in lines if words[0] == "placed"},
        {words[1]: int(words[2]) for words in lines if words[0] == "ended"},
    )


@pytest.mark.parametrize("mode", ["thread", "inline"])
@pytest.mark.parametrize("nth", [1, 2, 7, 38])
@pytest.mark.parametrize("point", POINTS)
def test_what_was_answered_survives_kill_9(path: str, point: str, nth: int, mode: str):
    check_after_a_kill(path, point, nth, mode)


@pytest.mark.parametrize("nth", [2, 37])
@pytest.mark.parametrize("point", POINTS)
def test_it_survives_on_a_server_too(postgres: PostgresServer, point: str, nth: int):
    check_after_a_kill(postgres.shared(), point, nth, "thread")


def check_after_a_kill(path: str, point: str, nth: int, mode: str) -> None:
    answered = run_and_kill(path, point, nth, mode)
    store = Store(path)
    assert store.check() == ()
    with store.read() as reader:
        jobs = {job.id: job for job in reader.jobs()}
        assert set(answered.submitted) <= set(jobs)
        assert len(jobs) <= len(answered.submitted) + 1
        for name, job in jobs.items():
            assert job.spec == {"n": int(name.removeprefix("job-"))}
            events = reader.events(job.id)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert len(events) == 1 + job.version
            assert (reader.result(job.id) is not None) == (job.finished_at is not None)
            assert len(reader.tasks(job.id)) == job.attempt
        for name, fence in answered.fences.items():
            assert [task.fence for task in reader.tasks(jobs[name].id)] == [fence]
        for name, code in answered.codes.items():
            result = reader.result(jobs[name].id)
            assert result is not None
            assert result.exit_code == code
        states = [job.state for job in jobs.values()]
        assert {s: n for s, n in reader.counts().items() if n} == {
            s: states.count(s) for s in set(states)
        }
        held = {task.fence for name in jobs for task in reader.tasks(jobs[name].id)}
    fresh = store.write(lambda tx: tx.next_fence()).result(timeout=30)
    assert fresh > max(held | set(answered.fences.values()), default=0)
    for name, job in jobs.items():
        if job.attempt == 0:
            task = place(store, name)
            end(store, task)
            assert job_of(store, name).finished_at is not None
    store.close()


def test_the_log_beside_the_file_is_read_after_a_kill(path: str):
    answered = run_and_kill(path, "answer", 20, "thread")
    assert Path(f"{path}-wal").stat().st_size > 0
    store = Store(path)
    submit(store)
    with store.read() as reader:
        assert len(reader.jobs()) >= len(answered.submitted) > 0
    store.close()
    assert not Path(f"{path}-wal").exists()
