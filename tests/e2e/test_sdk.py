"""The SDK on the local plane, as a program uses it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import gpulayer as gl
from gpulayer.sdk import local
from gpulayer.sdk.client import Client
from gpulayer.sdk.job import Job
from gpulayer.sdk.origin import Submitter
from tests.support.local_home import SECONDS, LocalHome
from tests.support.programs import Programs

pytestmark = pytest.mark.e2e


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as made:
        yield made


@pytest.fixture
def client(home: LocalHome) -> Iterator[Client]:
    with client_of(home) as made:
        yield made


def client_of(home: LocalHome) -> Client:
    places = home.places
    return Client(lambda: local.ensure_plane(places), Submitter(places))


def began(client: Client, job: Job) -> Job:
    path = client.path(job.id, wait=SECONDS, until="started")
    assert client.call("GET", path, park=SECONDS)["started_at"]
    return job


# --- one job --------------------------------------------------------------------------------


def test_a_command_starts_the_plane_and_tells_how_it_ended(client: Client) -> None:
    job = client.submit(["sh", "-c", "echo one; echo two >&2; exit 4"])
    assert job.wait(SECONDS) is job
    assert (job.status, job.exit_code, job.done()) == ("failed", 4, True)
    assert sorted(job.logs()) == ["one", "two"]
    with pytest.raises(gl.JobFailedError) as caught:
        job.result()
    assert caught.value.job_id == job.id
    assert "last lines of the job" in caught.value.__notes__[-1]


def test_run_copies_the_output_and_checks_the_end(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert client.run(["echo", "hello"]).exit_code == 0
    assert client.run(["false"]).exit_code == 1
    assert capsys.readouterr().out == "hello\n"
    with pytest.raises(gl.JobFailedError):
        client.run(["false"], check=True)


def test_a_string_is_no_command(client: Client) -> None:
    with pytest.raises(gl.UsageError, match="a list of words"):
        client.submit("echo hi")


def test_a_wait_may_end_before_the_job(client: Client) -> None:
    job = client.submit(["sleep", "1000"])
    with pytest.raises(TimeoutError):
        job.result(0.01)
    with pytest.raises(gl.JobTimedOutError, match="it goes on"):
        job.wait(0.01)
    job.cancel(now=True)
    with pytest.raises(gl.JobCancelledError):
        job.result(SECONDS)


def test_a_time_limit_ends_the_job(client: Client) -> None:
    error = client.submit(["sleep", "1000"], timeout=0.2).exception(SECONDS)
    assert isinstance(error, gl.JobTimedOutError)


def test_a_job_is_found_again_by_id_prefix_name_and_last(client: Client) -> None:
    job = client.submit(["true"], name="mine")
    for selector in (job.id, job.id[:-2], "mine", "last"):
        found = client.job(selector)
        assert (found.id, found.result(SECONDS)) == (job.id, 0)
    with pytest.raises(gl.NotFoundError):
        client.job("nothing-like-it")


def test_a_job_that_nothing_can_run_fails_with_its_reason(client: Client) -> None:
    error = client.submit(["true"], cpus=60_000, on_unschedulable="fail").exception(SECONDS)
    assert isinstance(error, gl.SchedulingError)
    assert client.plan(["true"], cpus=60_000)["outcome"] != "runs"


# --- many -----------------------------------------------------------------------------------


def test_as_completed_brings_the_first_to_end_first(home: LocalHome, client: Client) -> None:
    os.mkfifo(home.work / "gate")
    slow = client.submit(["sh", "-c", f"read x < {home.work}/gate"])
    fast = client.submit(["true"])
    ends = gl.as_completed([slow, fast], timeout=SECONDS)
    assert next(ends).id == fast.id
    (home.work / "gate").write_text("on\n")
    assert [job.id for job in ends] == [slow.id]


def test_gather_keeps_the_order_and_may_keep_exceptions(client: Client) -> None:
    jobs = [client.submit(["sh", "-c", f"exit {code}"]) for code in (0, 3, 0)]
    first, second, third = gl.gather(*jobs, return_exceptions=True)
    assert (first, third) == (0, 0)
    assert isinstance(second, gl.JobFailedError)
    with pytest.raises(gl.JobFailedError):
        gl.gather(*jobs)


def test_a_future_calls_back_and_is_the_same_each_time(client: Client) -> None:
    job, seen = client.submit(["true"]), Future[int]()
    future = job.future()
    future.add_done_callback(lambda done: seen.set_result(done.result()))
    assert seen.result(SECONDS) == 0
    assert job.future() is future


def test_a_future_of_a_job_that_has_ended_long_ago_is_done(client: Client) -> None:
    first, second = client.submit(["true"]), client.submit(["true"])
    assert second.result(SECONDS) == 0
    assert first.result(SECONDS) == 0
    assert Job(client, {"id": first.id}).result(SECONDS) == 0


def test_threads_share_one_client(client: Client) -> None:
    def one(number: int) -> int | None:
        return client.submit(["sh", "-c", f"exit {number}"]).wait(SECONDS).exit_code

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one, range(32))) == list(range(32))


def test_two_clients_see_each_others_jobs(home: LocalHome, client: Client) -> None:
    with client_of(home) as other:
        job = client.submit(["sh", "-c", "exit 6"])
        assert other.job(job.id).wait(SECONDS).exit_code == 6
        assert other.session != client.session


# --- asyncio --------------------------------------------------------------------------------


def test_jobs_are_awaited(client: Client) -> None:
    async def main() -> None:
        async with gl.AsyncClient(client) as plane:
            job = await plane.submit(["true"])
            assert await job == 0
            jobs = [await plane.submit(["sh", "-c", f"exit {n}"]) for n in range(2)]
            good, bad = await plane.gather(*jobs, return_exceptions=True)
            assert good == 0
            assert isinstance(bad, gl.JobFailedError)
            assert (await plane.job(job.id)).id == job.id

    asyncio.run(main())


def test_a_cancelled_run_cancels_its_job(client: Client) -> None:
    async def main() -> str:
        plane = gl.AsyncClient(client)
        run = asyncio.create_task(plane.run(["sleep", "1000"], name="long"))
        while not await plane.jobs():
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return str(client.job("long").wait(SECONDS).status)

    assert asyncio.run(main()) == "cancelled"


# --- again ----------------------------------------------------------------------------------


def test_a_retry_sees_the_environment_of_now_in_the_folder_of_then(home: LocalHome) -> None:
    said = Programs(home).run("""
        import os, gpulayer as gl

        os.environ["COLOUR"] = "red"
        job = gl.submit(["sh", "-c", "echo $COLOUR $(basename $PWD)"])
        job.wait()
        os.environ["COLOUR"] = "blue"
        os.mkdir("elsewhere")
        os.chdir("elsewhere")
        again = job.retry()
        again.result()
        print(*job.logs(), *again.logs(), sep=", ")
        print(again.id != job.id, again.refresh()["retry_of"] == job.id)
    """)
    assert said == "red work, blue work\nTrue True\n"


def test_a_running_job_is_not_tried_again(client: Client) -> None:
    job = began(client, client.submit(["sleep", "1000"]))
    with pytest.raises(gl.RefusedError, match="only an ended job"):
        job.retry()
    job.cancel(now=True)


# --- what dies ------------------------------------------------------------------------------


def test_who_waits_outlives_the_plane(home: LocalHome, client: Client) -> None:
    os.mkfifo(home.work / "gate")
    job = began(client, client.submit(["sh", "-c", f"read x < {home.work}/gate; exit 3"]))
    future = job.future()
    home.kill("plane")
    (home.work / "gate").write_text("on\n")
    assert future.exception(SECONDS) is not None
    assert job.exit_code == 3
    assert client.submit(["true"]).result(SECONDS) == 0


def test_a_killed_supervisor_loses_the_job_and_says_so(home: LocalHome, client: Client) -> None:
    job = began(client, client.submit(["sleep", "1000"]))
    home.kill("supervisor")
    error = job.exception(SECONDS)
    assert isinstance(error, gl.JobLostError)
    assert client.submit(["true"]).result(SECONDS) == 0


def test_a_closed_client_tells_who_waits(client: Client) -> None:
    job = began(client, client.submit(["sleep", "1000"]))
    waiting: Future[BaseException | None] = Future()
    future = job.future()
    threading.Thread(target=lambda: waiting.set_result(future.exception(SECONDS))).start()
    client.close()
    assert isinstance(waiting.result(SECONDS), gl.UnreachableError)


def test_a_forked_child_has_connections_of_its_own(home: LocalHome) -> None:
    said = Programs(home).run("""
        import multiprocessing, gpulayer as gl

        job = gl.submit(["sh", "-c", "sleep 0.3; exit 5"])
        job.future()

        def work(number):
            code = gl.submit(["sh", "-c", f"exit {number}"]).wait().exit_code
            return code, job.wait().exit_code

        if __name__ == "__main__":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, [1, 2, 3]))
            print(job.wait().exit_code)
    """)
    assert said == "[(1, 5), (2, 5), (3, 5)]\n5\n"


def test_an_interrupt_cancels_the_call(home: LocalHome) -> None:
    source = """
        import time, gpulayer as gl

        @gl.remote
        def forever():
            print("began", flush=True)
            time.sleep(1000)

        if __name__ == "__main__":
            print("calls")
            forever.remote()
    """
    with Programs(home).start(source) as program:
        program.line()
        home.until_running(1)
        program.interrupt()
        code, _, said = program.end()
    assert (code, "KeyboardInterrupt" in said) == (-2, True)
    home.until(lambda: [job["state"] for job in home.jobs()] == ["cancelled"])
