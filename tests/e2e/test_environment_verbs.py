# ruff: noqa: F401, F811
"""`gl.env_prepare`, `gl.env_ls`, `gl.env_rm`: what the command line does, from a program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.test_environments import Terminal, base, environments, packages, terminal
from tests.support.local_home import SECONDS
from tests.support.packages import BasePython
from tests.support.served import Served

pytestmark = pytest.mark.e2e


def told_by(terminal: Terminal, *lines: str) -> Any:
    """What a program prints as JSON, in its variable `told`."""
    text = "\n".join(
        ("import asyncio, json", "import gpulayer as gl", *lines, "print(json.dumps(told))")
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=terminal.environ, cwd=terminal.work, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def names(terminal: Terminal, *words: str) -> list[str]:
    jobs = json.loads(terminal.gpulayer("ps", "--json", *words).stdout)["jobs"]
    return [job["name"] for job in jobs]


def test_a_program_prepares_lists_and_removes(terminal: Terminal) -> None:
    assert terminal.gpulayer("run", "--name", "mine", "--", "true").returncode == 0
    made, listed, kept = told_by(
        terminal,
        "made = gl.env_prepare(['gamma'])",
        "listed = gl.env_ls()",
        "told = [made, listed, gl.env_ls(on=listed[0]['name'])]",
    )
    [ready] = made
    assert (ready["state"], ready["note"]) == ("ready", "built by uv")
    [env] = listed[0]["environments"]
    assert env["requirements"] == ["gamma"]
    assert [one["environments"][0]["key"] for one in kept] == [env["key"]]
    assert [one["key"] for one in environments(terminal)] == [env["key"]]
    assert names(terminal, "-a") == ["mine"]
    assert terminal.job("last")["name"] == "mine"
    assert terminal.job(ready["job"])["name"] == "env-prepare"
    until_unused(terminal)
    done = told_by(terminal, f"told = gl.env_rm({env['key'][:12]!r})")
    assert [one["key"] for one in done[0]["answer"]["removed"]] == [env["key"]]
    assert environments(terminal) == []


def test_what_is_wrong_is_raised_or_told_as_the_command_line_does(terminal: Terminal) -> None:
    told = told_by(
        terminal,
        "def code(call, *words, **options):",
        "    try:",
        "        return call(*words, **options)",
        "    except gl.GPULayerError as error:",
        "        return [error.code, type(error).__name__]",
        "told = [",
        "    code(gl.env_prepare, 'nosuch'), code(gl.env_rm, 'abc'), code(gl.env_rm),",
        "    code(gl.env_ls, on='nobody'), code(gl.env_prepare, 'gamma', gpuz=1),",
        "    code(gl.env_prepare, []), code(gl.env_prepare, 'gamma', on='nobody'),",
        "]",
    )
    assert told[0][0]["state"] == "failed"
    assert told[0][0]["error"]["code"] == "environment-failed"
    assert told[1:] == [
        ["environment-not-found", "NotFoundError"], ["usage", "UsageError"],
        ["worker-not-found", "NotFoundError"], ["unknown-field", "UsageError"],
        ["usage", "UsageError"], ["no-matching-worker", "SchedulingError"],
    ]  # fmt: skip


def test_an_asyncio_program_says_the_same_words(terminal: Terminal) -> None:
    [ready, listed] = told_by(
        terminal,
        "async def main():",
        "    async with gl.AsyncClient() as client:",
        "        made = await client.env_prepare('gamma')",
        "        return [made[0]['state'], await client.env_ls()]",
        "told = asyncio.run(main())",
    )
    assert ready == "ready"
    [env] = listed[0]["environments"]
    until_unused(terminal)
    done = told_by(terminal, "told = asyncio.run(gl.AsyncClient().env_rm(unused=True))")
    assert [one["key"] for one in done[0]["answer"]["removed"]] == [env["key"]]


def until_unused(terminal: Terminal) -> None:
    """A worker keeps the folder of a task until the plane has its end."""
    terminal.until(lambda: not any(env["used_by"] for env in environments(terminal)))


def test_a_worker_without_room_is_named_and_given_up_in_time(terminal: Terminal) -> None:
    assert terminal.gpulayer("run", "--", "true").returncode == 0
    [worker] = json.loads(terminal.gpulayer("workers", "--json").stdout)["workers"]
    cores = str(worker["capabilities"]["cpu_cores"])
    full = terminal.gpulayer("submit", "-q", "-c", cores, "--", "sleep", "1000").stdout.strip()
    terminal.until(lambda: terminal.job(full)["state"] == "running")
    waiting = subprocess.Popen(
        [sys.executable, "-m", "gpulayer", "env", "prepare", "gamma"],
        env=terminal.environ, cwd=terminal.work, stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        assert "waits for room: " in said, said
        assert "cores" in said, said
        [told] = told_by(terminal, "told = gl.env_prepare('gamma', timeout=1)")
        assert (told["state"], "cores" in told["why"]) == ("busy", True)
        assert names(terminal) == ["env-prepare", "sleep"]
        terminal.gpulayer("cancel", full)
        assert waiting.wait(SECONDS) == 0
        assert "ready in" in waiting.stderr.read()
    finally:
        waiting.kill()
        waiting.communicate()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


def test_a_client_of_a_server_prepares_on_its_workers(
    served: Served, terminal: Terminal, base: BasePython
) -> None:
    link = served.link(served.invite())
    joined = terminal.gpulayer("join", link, "--name", "lab", "--python", base.python)
    assert joined.returncode == 0, joined
    assert terminal.gpulayer("login", served.login).returncode == 0
    (terminal.work / "r.txt").write_text("gamma\n")
    made, listed = told_by(terminal, "told = [gl.env_prepare(['r.txt'], on='lab'), gl.env_ls()]")
    assert [(one["worker"], one["state"]) for one in made] == [("lab", "ready")]
    assert [(one["name"], len(one["environments"])) for one in listed] == [("lab", 1)]
