"""A plane inside a program: where it lives, who else sees it, and what is left when it is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpulayer as gl
from gpulayer.sdk import processes, scratch
from gpulayer.sdk.embedded import open_embedded
from tests.support.faults import delete
from tests.support.local_home import SECONDS, LocalHome, slay
from tests.support.programs import Programs

pytestmark = pytest.mark.e2e

SLEEPER = """
    import sys
    import gpulayer as gl

    with gl.connect(embedded={where}) as client:
        job = client.submit(["sleep", "1000"])
        client.call("GET", client.path(job.id, wait=60, until="started"))
        print(job.id, flush=True)
        input()
"""


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as made:
        yield made


@pytest.fixture
def programs(home: LocalHome) -> Programs:
    home.environ["TMPDIR"] = str(home.folder)
    return Programs(home)


def scratch_homes(home: LocalHome) -> list[Path]:
    return list(home.folder.glob(f"{scratch.PREFIX}*"))


def test_in_memory_leaves_nothing(programs: Programs, home: LocalHome) -> None:
    said = programs.run("""
        import gpulayer as gl

        with gl.connect(embedded=":memory:") as client:
            job = client.submit(["sh", "-c", "echo out; echo err >&2; exit 3"])
            print(job.wait().exit_code, sorted(job.logs()))
    """)
    assert said == "3 ['err', 'out']\n"
    assert scratch_homes(home) == []
    assert not Path(home.environ["GPULAYER_HOME"]).exists()
    assert home.strays() == []


def test_leaving_cancels_what_was_submitted_through_it_and_says_so(programs: Programs) -> None:
    with programs.start(SLEEPER.format(where="':memory:'")) as program:
        job = program.line()
        program.go_on()
        code, _, said = program.end()
    assert code == 0
    assert said == f"gpulayer: cancelled with its embedded plane: {job}\n"


def test_every_verb_answers_in_memory() -> None:
    """There, readers wait for the writer: whoever is told by it must be able to read."""
    client = open_embedded(":memory:")
    try:
        job = client.submit(["sleep", "1000"], name="long")
        client.call("GET", client.path(job.id, wait=60, until="started"))
        job.cancel()
        assert isinstance(job.exception(SECONDS), gl.JobCancelledError)
        again = job.retry()
        again.cancel(now=True)
        assert again.wait(SECONDS).status == "cancelled"
        assert [found.id for found in client.jobs(all=True)] == [again.id, job.id]
        assert job.events()
        assert job.why()["outcome"] == "placed"
        assert client.plan(["true"])["outcome"]
        assert client.workers()[0]["id"] == "local"
        spec = {"workload": {"kind": "command", "command": ["true"]}}
        assert client.call("POST", "/v1/jobs", {"spec": spec})["id"]
    finally:
        client.close()


def test_a_long_map_goes_in_several_batches_and_is_cancelled_whole() -> None:
    client = open_embedded(":memory:")
    try:
        jobs = client.submit_specs([{"workload": {"kind": "command", "command": ["true"]}}] * 1_200)
        assert len({job.id for job in jobs}) == 1_200
        began = gl.gather(*jobs[:4])
        assert began == [0, 0, 0, 0]
    finally:
        client.close()


def test_a_program_that_never_leaves_it_ends_all_the_same(
    programs: Programs, home: LocalHome
) -> None:
    done = programs.run_words(
        [
            programs.write("""
        import gpulayer as gl

        client = gl.connect(embedded=":memory:")
        job = client.submit(["sleep", "1000"])
        client.call("GET", client.path(job.id, wait=60, until="started"))
        print(job.id)
    """)
        ]
    )
    assert (done.returncode, done.stderr.split(": ")[-1]) == (0, done.stdout)
    assert home.strays() == []


def test_a_killed_program_leaves_no_job_of_a_plane_in_memory(
    programs: Programs, home: LocalHome
) -> None:
    with programs.start(SLEEPER.format(where="':memory:'")) as program:
        program.line()
        program.kill()
    home.until(lambda: home.strays() == [])
    assert len(scratch_homes(home)) == 1
    programs.run("import gpulayer as gl; gl.connect(embedded=':memory:').close()")
    assert scratch_homes(home) == []


def test_an_interrupted_program_ends_its_jobs(programs: Programs, home: LocalHome) -> None:
    with programs.start(SLEEPER.format(where="':memory:'")) as program:
        job = program.line()
        program.interrupt()
        code, _, said = program.end()
    assert code == -2
    assert f"cancelled with its embedded plane: {job}" in said
    assert "KeyboardInterrupt" in said
    assert home.strays() == []


def test_a_folder_keeps_what_was_done(programs: Programs, home: LocalHome) -> None:
    source = """
        import sys, gpulayer as gl

        with gl.connect(embedded="data") as client:
            print([job.name for job in client.jobs(all=True)])
            client.run(["true"], name=sys.argv[1])
    """
    assert programs.run(source, "one") == "[]\n"
    assert programs.run(source, "two") == "['one']\n"
    assert home.strays() == []


def test_other_terminals_see_the_jobs_of_an_embedded_plane(
    programs: Programs, home: LocalHome
) -> None:
    with programs.start(SLEEPER.format(where="True")) as program:
        job = program.line()
        assert [found["id"] for found in home.jobs()] == [job]
        assert home.wire().call("GET", "/v1/version")["kind"] == "embedded"
        home.run("sh", "-c", "exit 7", check=7)
        program.go_on()
        assert program.end()[0] == 0
    assert home.strays() == []


def test_a_second_one_on_the_same_folder_is_told_who_has_it(
    programs: Programs, home: LocalHome
) -> None:
    with programs.start(SLEEPER.format(where="True")) as program:
        program.line()
        said = programs.run("""
            import gpulayer as gl

            try:
                gl.connect(embedded=True)
            except gl.RefusedError as error:
                print(error.code, error, error.why)
        """)
    assert said.startswith("plane-held")
    assert f"process {program.pid}" in said


def test_it_takes_over_from_the_local_plane_and_gives_back_what_is_not_its_own(
    programs: Programs, home: LocalHome
) -> None:
    os.mkfifo(home.folder / "go")
    with home.popen(
        "sh", "-c", "echo began; read x < ../go; echo went $x; exit 5", stdout=-1
    ) as old:
        (theirs,) = home.until_running(1)
        with programs.start(SLEEPER.format(where="True")) as program:
            mine = program.line()
            assert home.wire().call("GET", "/v1/version")["pid"] == program.pid
            states = {job["id"]: job["state"] for job in home.jobs()}
            assert states == {theirs["id"]: "running", mine: "running"}
            program.go_on()
            code, _, said = program.end()
        assert (code, said.split(": ")[-1].strip()) == (0, mine)
        (home.folder / "go").write_text("on\n")
        out, _ = old.communicate(timeout=SECONDS)
        assert (old.returncode, out.splitlines()[-1]) == (5, b"went on")
    assert home.wire().call("GET", "/v1/version")["kind"] == "local"
    states = {job["id"]: job["state"] for job in home.jobs()}
    assert states == {theirs["id"]: "failed", mine: "cancelled"}


def test_a_killed_program_s_folder_is_taken_up_by_the_next(
    programs: Programs, home: LocalHome
) -> None:
    with programs.start(SLEEPER.format(where="True")) as program:
        job = program.line()
        program.kill()
    home.run("true", check=0)
    assert {found["id"]: found["state"] for found in home.jobs()}[job] == "running"
    home.stop(force=True)


def test_a_forked_child_lets_go_of_its_parents_plane(programs: Programs) -> None:
    said = programs.run("""
        import os, gpulayer as gl

        client = gl.connect(embedded=":memory:")
        client.submit(["true"]).result()
        if os.fork() == 0:
            try:
                client.submit(["true"])
            except gl.RefusedError as error:
                print(error.code, flush=True)
            os._exit(0)
        os.wait()
        print(client.submit(["true"]).result())
        client.close()
    """)
    assert said == "plane-held\n0\n"


def test_a_child_of_a_plane_on_a_folder_is_its_client(programs: Programs) -> None:
    said = programs.run("""
        import multiprocessing, gpulayer as gl

        def work(number):
            return gl.submit(["sh", "-c", f"exit {number}"]).wait().exit_code

        if __name__ == "__main__":
            with gl.connect(embedded=True):
                gl.run(["true"])
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    print(pool.map(work, [1, 2, 3]))
    """)
    assert said == "[1, 2, 3]\n"


def test_a_supervisor_that_is_killed_loses_its_job_and_is_replaced() -> None:
    with LocalHome() as home:
        client = open_embedded(str(home.folder / "home"))
        try:
            job = client.submit(["sleep", "1000"])
            home.until(lambda: job.status == "running")
            home.kill("supervisor")
            assert type(job.exception(SECONDS)).__name__ == "JobLostError"
            assert client.submit(["true"]).result(SECONDS) == 0
        finally:
            client.close()


def test_a_submission_that_finds_no_supervisor_waits_for_the_programs_own() -> None:
    """No local plane is started for a plane that is there, though nobody listens for it."""
    with open_embedded(":memory:") as client:
        assert client.submit(["true"]).result(SECONDS) == 0
        places = client._plane.places
        slay(int(processes.running(places)[-1][1]))
        assert client.submit(["true"]).result(SECONDS) == 0
        assert [kind for kind, _ in processes.running(places)] == ["supervisor"]


def test_the_temporary_folder_may_have_a_long_name(programs: Programs, home: LocalHome) -> None:
    long = home.folder / ("long" * 25)
    long.mkdir()
    home.environ["TMPDIR"] = str(long)
    said = programs.run("""
        import gpulayer as gl

        with gl.connect(embedded=":memory:") as client:
            print(client.submit(["true"]).result())
    """)
    assert said == "0\n"


def test_a_deleted_folder_ends_the_plane_and_tells_who_waits(home: LocalHome) -> None:
    folder = home.folder / "home"
    client = open_embedded(str(folder))
    try:
        job = client.submit(["sleep", "1000"])
        client.call("GET", client.path(job.id, wait=60, until="started"))
        future = job.future()
        delete(folder)
        # Whichever notices first tells: the plane that ends, or the supervisor that ended the job.
        told = gl.StorageError | gl.UnreachableError | gl.JobCancelledError | gl.JobLostError
        assert isinstance(future.exception(SECONDS), told)
        home.until(lambda: home.strays() == [])
        assert not folder.exists()
    finally:
        client.close()
