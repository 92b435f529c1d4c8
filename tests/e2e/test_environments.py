"""Jobs that name requirements, through everything: prepared apart, never in a user's own Python."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_home import SECONDS, LocalHome
from tests.support.packages import BasePython, Packages
from tests.support.served import Served
from tests.unit.worker.test_environment_files import lock

pytestmark = pytest.mark.e2e

LOCKED = (
    '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.8"\ndependencies = ["gamma"]\n'
)
SHOW = "import sys, gamma, alpha; print(gamma.version, alpha.version, sys.prefix)"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    made = Packages(tmp_path_factory.mktemp("index") / "packages")
    made.wheel("alpha", "1.0")
    made.wheel("gamma", "1.0", needs=["alpha"])
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, packages: Packages) -> BasePython:
    """It has alpha 1.0."""
    made = BasePython(tmp_path_factory.mktemp("base") / "base")
    made.has(packages, "alpha", "1.0")
    return made


class Terminal(LocalHome):
    """A terminal in which that Python is active and those packages are found."""

    def __init__(self, base: BasePython, packages: Packages) -> None:
        super().__init__()
        folder = Path(base.python).parent
        path = f"{folder}:{self.environ['PATH']}"
        here = {"HOME": self.environ.get("HOME", "/"), "PATH": path}
        self.environ |= {**packages.environ, "VIRTUAL_ENV": str(folder.parent), **here}

    def gpulayer(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gpulayer", *words],
            env=self.environ, cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    def job(self, name: str = "last") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.gpulayer("status", "--json", name).stdout)["job"]
        return found

    def story(self) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = json.loads(self.gpulayer("events", "--json", "last").stdout)[
            "events"
        ]
        return told


@pytest.fixture
def terminal(base: BasePython, packages: Packages) -> Iterator[Terminal]:
    with Terminal(base, packages) as terminal:
        yield terminal


def test_what_is_required_is_there_and_the_time_for_it_is_no_part_of_the_run(
    terminal: Terminal, base: BasePython
) -> None:
    before = base.files()
    done = terminal.gpulayer("run", "-r", "gamma", "--", "python", "-c", SHOW)
    assert done.returncode == 0, done
    *versions, prefix = done.stdout.split()
    assert versions == ["1.0", "1.0"]
    assert prefix.startswith(str(terminal.folder / "home"))
    assert base.files() == before
    kinds = [event["kind"] for event in terminal.story()]
    assert kinds.index("prepared") < kinds.index("started")
    job = terminal.job()
    [step] = job["preparation"]["steps"]
    assert (step["name"], step["note"]) == ("environment", "built by uv")
    prepared = next(event for event in terminal.story() if event["kind"] == "prepared")
    assert prepared["data"] == job["preparation"]
    assert job["started_at"] - job["submitted_at"] >= step["seconds"]
    assert "prepared:" in terminal.gpulayer("status", "last").stdout
    again = terminal.gpulayer("run", "-r", "gamma", "--", "python", "-c", SHOW)
    assert again.stdout == done.stdout
    [step] = terminal.job()["preparation"]["steps"]
    assert step["note"] == "reused"


def test_the_header_of_a_script_and_a_file_of_requirements_say_it_too(terminal: Terminal) -> None:
    header = '# /// script\n# dependencies = ["gamma>=1"]\n# ///\n'
    (terminal.work / "t.py").write_text(header + SHOW)
    (terminal.work / "reqs.txt").write_text("gamma  # that one\n")
    for words in (
        ["--", "python", "t.py"],
        ["-r", "reqs.txt", "--", "sh", "-c", f"python -c '{SHOW}'"],
    ):
        done = terminal.gpulayer("run", *words)
        assert done.stdout.startswith("1.0 1.0 "), done


def test_a_project_has_what_its_lock_says(terminal: Terminal) -> None:
    lock(terminal.work, terminal.environ, LOCKED)
    done = terminal.gpulayer("run", "-r", "uv.lock", "--", "python", "-c", SHOW)
    assert done.stdout.startswith("1.0 1.0 "), done
    assert terminal.job()["spec"]["environment"] == {"file": "uv.lock"}
    done = terminal.gpulayer("run", "--source", ".", "-r", "uv.lock", "--", "python", "-c", SHOW)
    assert done.stdout.startswith("1.0 1.0 "), done
    [source, step] = terminal.job()["preparation"]["steps"]
    assert (source["name"], step["note"]) == ("source", "reused")


def test_a_lock_that_was_not_sent_is_missed_by_its_name(terminal: Terminal) -> None:
    spec = {
        "workload": {"kind": "command", "command": ["true"]},
        "environment": {"file": "sub/uv.lock"},
    }
    (terminal.work / "job.json").write_text(json.dumps(spec))
    job = terminal.gpulayer("submit", "-q", "-f", "job.json").stdout.strip()
    done = terminal.gpulayer("wait", job)
    assert done.returncode == 126, done
    assert "sub/pyproject.toml cannot be read: No such file" in done.stderr


def test_a_function_has_what_it_requires(terminal: Terminal) -> None:
    (terminal.work / "prog.py").write_text(
        "import gpulayer as gl\n"
        "@gl.remote(requirements=['gamma'])\n"
        "def versions():\n"
        "    import alpha, gamma\n"
        "    return [gamma.version, alpha.version]\n"
        "if __name__ == '__main__':\n"
        "    job = versions.submit()\n"
        "    print(job.result(), [step['name'] for step in job.preparation['steps']])\n"
    )
    done = subprocess.run(
        [sys.executable, "prog.py"],
        env=terminal.environ, cwd=terminal.work, capture_output=True, text=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    assert done.stdout == "['1.0', '1.0'] ['environment']\n", done


def test_what_cannot_be_installed_is_told_with_the_installers_words(terminal: Terminal) -> None:
    done = terminal.gpulayer("run", "-r", "nosuch", "--", "echo", "never")
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr.startswith("error[environment-failed]: ")
    job = terminal.job()
    assert (job["state"], job["reason"]) == ("failed", "preparation")
    assert "phase environment" in job["result"]["error"]["where"]
    assert f"prepared on {job['worker']}" in done.stderr
    assert "nosuch" in done.stderr
    assert job["started_at"] is None


def test_a_cancelled_job_ends_its_build(terminal: Terminal, packages: Packages) -> None:
    build = packages.waiting("halts")
    submitted = terminal.gpulayer("submit", "-q", "-r", "halts", "--", "true")
    job = submitted.stdout.strip()
    build.wait()
    terminal.until(lambda: terminal.job(job)["phase"] == "environment")
    assert "prepares:" in terminal.gpulayer("status", job).stdout
    assert terminal.gpulayer("cancel", job).returncode == 0
    build.until_nobody_is_left()
    terminal.until(lambda: terminal.job(job)["state"] == "cancelled")
    assert terminal.job(job)["started_at"] is None


def test_an_agent_that_is_killed_while_it_builds_leaves_no_half(
    terminal: Terminal, packages: Packages
) -> None:
    build = packages.waiting("stays")
    job = terminal.gpulayer("submit", "-q", "-r", "stays", "--retries", "1", "--", "true")
    build.wait()
    build.let_go()
    terminal.kill("agent")
    build.until_nobody_is_left()
    done = terminal.gpulayer("wait", job.stdout.strip())
    assert done.returncode == 0, done
    [step] = terminal.job(job.stdout.strip())["preparation"]["steps"]
    assert step["note"] == "built by uv"


def test_more_builds_than_threads_hold_up_no_other_job(
    terminal: Terminal, packages: Packages
) -> None:
    build = packages.waiting("lingers")
    jobs = [
        terminal.gpulayer(
            "submit", "-q", "-c", "0.01", "-r", "lingers", "--", "true"
        ).stdout.strip()
        for _ in range(6)
    ]
    build.wait()
    done = terminal.gpulayer("run", "-c", "0.01", "--", "python", "-c", "print('meanwhile')")
    assert done.stdout == "meanwhile\n", done
    terminal.gpulayer("cancel", *jobs)
    build.until_nobody_is_left()


# --- ahead of time, and off again ----------------------------------------------------------------


def environments(terminal: Terminal) -> list[dict[str, Any]]:
    told = json.loads(terminal.gpulayer("env", "ls", "--json").stdout)["workers"]
    return [{"worker": one["name"], **env} for one in told for env in one["environments"]]


def test_what_was_prepared_is_what_a_job_finds(terminal: Terminal) -> None:
    lock(terminal.work, terminal.environ, LOCKED)
    for words in (["-r", "gamma"], ["-r", "uv.lock"]):
        done = terminal.gpulayer("env", "prepare", *words)
        assert done.returncode == 0, done
        assert "ready in" in done.stderr
        assert "(built by uv)" in done.stderr
        done = terminal.gpulayer("run", *words, "--", "python", "-c", SHOW)
        assert done.stdout.startswith("1.0 1.0 "), done
        assert terminal.job()["preparation"]["steps"][0]["note"] == "reused"
    told = environments(terminal)
    assert [(env["file"], env["requirements"]) for env in told] == [
        ("uv.lock", []), (None, ["gamma"]),
    ]  # fmt: skip


def test_what_cannot_be_prepared_is_told_and_is_the_exit_code(terminal: Terminal) -> None:
    done = terminal.gpulayer("env", "prepare", "nosuch", "--json")
    assert done.returncode == 1
    [told] = json.loads(done.stdout)["workers"]
    assert (told["state"], told["error"]["code"]) == ("failed", "environment-failed")
    assert environments(terminal) == []
    done = terminal.gpulayer("env", "prepare", "gamma", "--on", "nobody")
    assert (done.returncode, done.stderr.split(":")[0]) == (1, "error[no-matching-worker]")


def test_ctrl_c_ends_what_is_being_prepared(terminal: Terminal, packages: Packages) -> None:
    build = packages.waiting("dawdles")
    child = subprocess.Popen(
        [sys.executable, "-m", "gpulayer", "env", "prepare", "dawdles"],
        env=terminal.environ, cwd=terminal.work, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    build.wait()
    child.send_signal(signal.SIGINT)
    build.until_nobody_is_left()
    assert child.wait(SECONDS) == 130
    assert environments(terminal) == []


def test_one_in_use_is_not_removed_and_the_job_is_named(terminal: Terminal) -> None:
    submitted = terminal.gpulayer("submit", "-q", "-r", "gamma", "--", "sleep", "1000")
    job = submitted.stdout.strip()
    terminal.until(lambda: terminal.job(job)["state"] == "running")
    [env] = environments(terminal)
    assert env["used_by"] == [job]
    done = terminal.gpulayer("env", "rm", env["key"][:12])
    assert (done.returncode, done.stderr.split(":")[0]) == (1, "error[environment-in-use]")
    assert f"{job} uses it" in done.stderr
    assert f", a job uses it: {job}" in terminal.gpulayer("env", "rm", "--unused").stderr
    terminal.gpulayer("cancel", job)
    terminal.until(lambda: terminal.gpulayer("env", "rm", env["key"]).returncode == 0)
    assert environments(terminal) == []
    assert terminal.gpulayer("env", "rm", env["key"]).returncode == 3


# --- a worker that joined -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


def required(served: Served, requirement: str) -> dict[str, Any]:
    """A job of the worker `lab` that needs this; once it has ended."""
    spec = {
        "workload": {"kind": "command", "command": ["python", "-c", SHOW]},
        "placement": {"target": "remote", "worker_ids": ["lab"]},
        "environment": {"requirements": [requirement]},
    }
    job = served.admin.call("POST", "/v1/jobs", {"spec": spec})["id"]
    path = f"/v1/jobs/{job}?wait=60&until=finished"
    ended: dict[str, Any] = served.admin.call("GET", path, park=SECONDS)
    return ended


def test_a_worker_that_joined_installs_by_its_own_settings_and_tells_no_login(
    served: Served, terminal: Terminal, base: BasePython
) -> None:
    login = "someone:hunter22-of-the-index"
    link = served.link(served.invite())
    joined = terminal.gpulayer("join", link, "--name", "lab", "--python", base.python)
    assert joined.returncode == 0, joined
    job = required(served, "gamma")
    assert (job["state"], job["worker"]) == ("succeeded", "lab"), job
    assert [step["note"] for step in job["preparation"]["steps"]] == ["built by uv"]
    lock(terminal.work, terminal.environ, LOCKED)
    assert terminal.gpulayer("login", served.login).returncode == 0
    done = terminal.gpulayer("run", "-r", "uv.lock", "--", "python", "-c", SHOW)
    assert done.stdout.startswith("1.0 1.0 "), done
    words = ["--source", "none", "-r", "uv.lock", "--", "true"]
    assert "--source none sends none" in terminal.gpulayer("run", *words).stderr
    done = terminal.gpulayer("env", "prepare", "-r", "uv.lock")
    assert done.stderr.startswith("lab: ready in "), done
    assert "(reused)" in done.stderr
    assert {env["worker"] for env in environments(terminal)} == {"lab"}
    assert "error[not-allowed]" in terminal.gpulayer("env", "rm", "--unused").stderr
    listed = served.wire().call("GET", "/v1/caches?wait=30", park=SECONDS)["workers"]
    assert [(one["name"], len(one["answer"]["environments"])) for one in listed] == [("lab", 2)]
    removal = {"unused": True, "workers": ["lab"]}
    [done] = served.wire().call("POST", "/v1/environments/remove", removal, park=SECONDS)["workers"]
    assert len(done["answer"]["removed"]) == 2, done
    del terminal.environ["UV_CONFIG_FILE"]
    terminal.environ["UV_DEFAULT_INDEX"] = f"http://{login}@127.0.0.1:1/simple"
    assert terminal.gpulayer("join").returncode == 0
    job = required(served, "nosuch")
    assert job["result"]["error"]["slug"] == "environment-failed"
    assert "worker lab" in job["result"]["error"]["where"]
    assert login not in json.dumps(job)
    files = [path for home in (served.folder, terminal.folder) for path in home.rglob("*")]
    told = [path for path in files if path.is_file() and login.encode() in path.read_bytes()]
    assert told == []
