"""`gl.Executor`: what programs written for `concurrent.futures` rely on."""

from __future__ import annotations

import concurrent.futures
import operator
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpulayer as gl
from gpulayer.sdk.client import Client
from gpulayer.sdk.connect import Connection
from gpulayer.sdk.embedded import open_embedded
from tests.support.items import given, named, opened, pair, prepare, prepared
from tests.support.local_home import LocalHome
from tests.support.programs import Programs

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def plane() -> Iterator[Client]:
    with Connection(open_embedded(":memory:")) as client:
        yield client


@pytest.fixture
def executor(plane: Client) -> Iterator[gl.Executor]:
    with gl.Executor(name="call") as made:
        yield made


@pytest.fixture
def programs() -> Iterator[Programs]:
    with LocalHome() as home:
        yield Programs(home)


class Gate:
    """A call that waits, and what lets it go on."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "gate")
        os.mkfifo(self.path)

    def open(self, text: str = "through") -> None:
        with open(self.path, "w") as file:
            file.write(text)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def cores(plane: Client) -> int:
    return int(plane.workers()[0]["capabilities"]["cpu_cores"])


def until_started(plane: Client, future: Any) -> None:
    plane.call("GET", plane.path(future.job.id, until="started", wait=60), park=60)


def test_a_call_is_a_job_with_a_future(executor: gl.Executor) -> None:
    assert isinstance(executor, concurrent.futures.Executor)
    future = executor.submit(pair, 1, "a")
    assert future.result(60) == (1, "a")
    assert (future.done(), future.running(), future.cancel()) == (True, False, False)
    assert (future.job.name, future.job.status) == ("call", "succeeded")
    assert executor.submit(pow, 2, exp=5).result(60) == 32
    assert executor.submit(named, self=1, fn=2).result(60) == {"self": 1, "fn": 2}


def test_what_a_call_raised_is_raised_with_the_job_as_its_cause(executor: gl.Executor) -> None:
    future = executor.submit(operator.truediv, 1, 0)
    error = future.exception(60)
    assert isinstance(error, ZeroDivisionError)
    assert isinstance(error.__cause__, gl.JobFailedError)
    assert error.__cause__.job_id == future.job.id
    with pytest.raises(gl.JobFailedError, match="exit code 7"):
        executor.submit(given, "exit").result(60)
    with pytest.raises(ZeroDivisionError):
        list(executor.map(operator.truediv, [1, 1], [1, 0]))


def test_what_cannot_travel_is_refused_where_it_is_written(executor: gl.Executor) -> None:
    with pytest.raises(gl.UsageError, match="lambda"):
        executor.submit(lambda: 1)
    with pytest.raises(gl.UsageError, match=r"args\[0\] is a type"):
        executor.submit(given, object)


def test_a_wait_may_be_given_up_and_the_call_goes_on(executor: gl.Executor, gate: Gate) -> None:
    future = executor.submit(opened, gate.path)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0)
    done, left = concurrent.futures.wait([future], timeout=0)
    assert (done, left) == (set(), {future})
    gate.open()
    assert future.result(60) == "through"


def test_wait_and_as_completed_take_its_futures(executor: gl.Executor, gate: Gate) -> None:
    slow, quick = executor.submit(opened, gate.path), executor.submit(opened, "")
    first = concurrent.futures.FIRST_COMPLETED
    done, left = concurrent.futures.wait([slow, quick], 60, return_when=first)
    assert (done, left) == ({quick}, {slow})
    ended = concurrent.futures.as_completed([slow, quick], 60)
    assert next(ended) is quick
    gate.open()
    assert list(ended) == [slow]
    bad = executor.submit(operator.truediv, 1, 0)
    done, _ = concurrent.futures.wait([bad, slow], 60, return_when="FIRST_EXCEPTION")
    assert slow in done


def test_callbacks_hear_of_the_end_once(executor: gl.Executor, gate: Gate) -> None:
    heard: list[Any] = []
    future = executor.submit(opened, gate.path)
    future.add_done_callback(lambda done: heard.append(done.result()))
    future.add_done_callback(lambda done: 1 // 0)  # logged, and none of the others' business
    future.add_done_callback(lambda done: heard.append(done is future))
    assert heard == []
    gate.open()
    future.result(60)
    with gl.Executor() as other:
        other.submit(pow, 1, 1)
    assert heard == ["through", True]
    future.add_done_callback(heard.append)
    assert heard[2:] == [future]


def test_one_that_waits_can_be_cancelled_and_one_that_runs_cannot(
    executor: gl.Executor, plane: Client, gate: Gate
) -> None:
    running = executor.submit(opened, gate.path)
    waiting = gl.Executor(cpus=cores(plane)).submit(opened, "")
    heard: list[Any] = []
    waiting.add_done_callback(heard.append)
    assert waiting.cancel()
    assert waiting.cancel()
    assert (waiting.cancelled(), waiting.done(), heard) == (True, True, [waiting])
    assert concurrent.futures.wait([waiting], 60).not_done == set()
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(60)
    until_started(plane, running)
    assert running.running()
    assert not running.cancel()
    gate.open()
    assert running.result(60) == "through"


def test_a_map_gives_results_in_order_and_submits_before_it_is_read(
    executor: gl.Executor, plane: Client
) -> None:
    before = len(plane.jobs(all=True))
    results = executor.map(pow, [2, 3, 4], [3, 2, 1, 0], chunksize=2)
    assert len(plane.jobs(all=True)) == before + 1
    assert list(results) == [8, 9, 4]
    assert list(executor.map(pow, [], [])) == []


def test_a_map_that_takes_too_long_is_cancelled(executor: gl.Executor, gate: Gate) -> None:
    results = executor.map(opened, ["", gate.path], timeout=0.5)
    with pytest.raises(TimeoutError):
        list(results)
    job = gl.job("last").wait(60)
    assert job.status == "cancelled"


def test_a_map_that_is_given_up_is_cancelled(executor: gl.Executor, gate: Gate) -> None:
    results = executor.map(opened, ["", gate.path, gate.path])
    assert next(results) == "at once"
    results.close()  # type: ignore[attr-defined]
    assert gl.job("last").wait(60).status == "cancelled"


def test_after_shutdown_nothing_is_taken_and_what_was_goes_on(plane: Client, gate: Gate) -> None:
    executor = gl.Executor()
    future = executor.submit(opened, gate.path)
    executor.shutdown(wait=False)
    executor.shutdown(wait=False)
    for refused in (executor.submit, executor.map):
        with pytest.raises(RuntimeError, match="after shutdown"):
            refused(opened, [""])
    gate.open()
    assert future.result(60) == "through"
    executor.shutdown()
    with gl.Executor() as executor:
        futures = [executor.submit(pow, 2, n) for n in range(4)]
        results = executor.map(pow, [3], [3])
    assert all(future.done() for future in futures)
    assert list(results) == [27]


def test_shutdown_may_cancel_what_has_not_begun(plane: Client, gate: Gate) -> None:
    first = gl.Executor().submit(opened, gate.path)
    until_started(plane, first)
    executor = gl.Executor(cpus=cores(plane))
    others = [executor.submit(opened, "") for _ in range(2)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert [future.cancelled() for future in others] == [True, True]
    gate.open()
    assert first.result(60) == "through"
    executor.shutdown()


def test_no_more_calls_run_than_there_are_workers(plane: Client, tmp_path: Path) -> None:
    gates = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        gates.append(Gate(tmp_path / str(number)))
    with gl.Executor(2, name="turn", cpus=0.1) as executor:
        futures = [executor.submit(opened, gate.path) for gate in gates]
        assert [future.running() for future in futures[2:]] == [False, False]
        with pytest.raises(concurrent.futures.InvalidStateError, match="its turn"):
            _ = futures[3].job
        gates[1].open("second")
        assert futures[1].result(60) == "second"
        gates[2].open("third")  # it is its turn, although the first one goes on
        assert futures[2].result(60) == "third"
        assert len([job for job in plane.jobs() if job.name == "turn"]) <= 2
        gates[0].open("first")
        gates[3].open("fourth")
    assert [future.result(0) for future in futures] == ["first", "second", "third", "fourth"]
    mapped = gl.Executor(3).map(given, range(5))
    assert gl.job("last").refresh()["spec"]["array"]["max_parallel"] == 3
    assert list(mapped) == [0, 1, 2, 3, 4]


def test_one_whose_turn_has_not_come_is_cancelled_and_is_no_job(plane: Client, gate: Gate) -> None:
    before = len(plane.jobs(all=True))
    executor = gl.Executor(1)
    first, second, third = (executor.submit(opened, path) for path in (gate.path, "", ""))
    heard: list[Any] = []
    second.add_done_callback(heard.append)
    assert second.cancel()
    assert second.cancel()
    assert (second.cancelled(), heard) == (True, [second])
    assert concurrent.futures.wait([second], 0).done == {second}
    gate.open()
    assert (first.result(60), third.result(60)) == ("through", "at once")
    executor.shutdown()
    assert len(plane.jobs(all=True)) == before + 2


def test_what_cannot_be_submitted_in_its_turn_fails_alone(plane: Client, gate: Gate) -> None:
    executor = gl.Executor(1)
    first = executor.submit(opened, gate.path)
    bad, good = executor.submit(given, 1), executor.submit(given, 2)
    executor._turns._waiting[0] = (bad, lambda: pytest.fail("it cannot be submitted"))
    gate.open()
    assert first.result(60) == "through"
    assert "cannot be submitted" in str(bad.exception(60))
    assert good.result(60) == 2


@pytest.mark.parametrize("many", [0, -1])
def test_a_number_of_workers_is_one(many: int) -> None:
    with pytest.raises(ValueError, match="max_workers must be greater than 0"):
        gl.Executor(max_workers=many)
    with pytest.raises(TypeError):
        gl.Executor(max_workers="4")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        gl.Executor(initializer="prepare")  # type: ignore[arg-type]
    with pytest.raises(gl.UsageError, match="has no max_tasks_per_child"):
        gl.Executor(max_tasks_per_child=1)


def test_each_process_is_initialized_once_before_its_first_call(plane: Client) -> None:
    with gl.Executor(initializer=prepare, initargs=(1, {"a"})) as executor:
        calls = [executor.submit(prepared) for _ in range(3)]
        assert [call.result(60)[1] for call in calls] == [[(1, {"a"})]] * 3
        assert executor.submit(prepared, 7).result(60)[1] == [(1, {"a"})]
        found = list(executor.map(prepared, range(50)))
    assert [told for _, told in found] == [[(1, {"a"})]] * 50
    assert len({process for process, _ in found}) < 50, "several calls shared a process"


def test_an_initializer_that_raises_fails_the_call(plane: Client) -> None:
    with gl.Executor(initializer=prepare, initargs=("raise",)) as executor:
        with pytest.raises(LookupError, match="no such set of data"):
            executor.submit(prepared).result(60)
        with pytest.raises(LookupError, match="no such set of data"):
            list(executor.map(prepared, [1]))


def test_an_initializer_that_cannot_be_meant_is_refused_where_it_is_written(plane: Client) -> None:
    with pytest.raises(gl.UsageError, match="lambda"):
        gl.Executor(initializer=lambda: None).submit(given, 1)
    with pytest.raises(gl.UsageError, match=r"initargs\[1\] is a type"):
        gl.Executor(initializer=prepare, initargs=(1, object))


def test_the_program_ends_after_the_last_call_has_had_its_turn(programs: Programs) -> None:
    said = programs.run("""
        import gpulayer as gl

        seen = []

        def prepare(word):
            seen.append(word)

        def write(name):
            with open(name, "w") as file:
                file.write(" ".join(seen))

        if __name__ == "__main__":
            executor = gl.Executor(max_workers=1, initializer=prepare, initargs=("ready",))
            for name in "abc":
                executor.submit(write, name)
    """)
    assert said == ""
    home = programs.home
    for job in home.jobs():
        assert home.gpulayer("wait", job["id"]).returncode == 0
    assert [(home.work / name).read_text() for name in "abc"] == ["ready"] * 3
