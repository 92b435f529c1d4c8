"""A person at another machine: logs in to a server, works there, and leaves."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.local_home import RUN, SECONDS
from tests.support.machine import Machine, joined_to
from tests.support.served import Served

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


def test_a_person_logs_in_works_there_and_leaves(served: Served) -> None:
    with joined_to(served, "far"), Machine() as desk:
        line = served.link(served.invite(role="submitter"))
        desk.gpulayer("login", line, "--name", "lab")
        desk.gpulayer("login", line, "--name", "lab")
        known = json.loads(desk.gpulayer("use", "--json").stdout)["servers"]
        assert [row["name"] for row in known if row["current"]] == ["lab"]
        done = desk.run("sh", "-c", "echo out; echo err >&2; exit 3")
        assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
        pinned = desk.gpulayer("run", "--on", "far", "--", "echo", "pinned")
        assert pinned.stdout == "pinned\n"
        assert (
            "needs label rack=9"
            in desk.gpulayer("run", "--on", "rack=9", "--", "true", check=125).stderr
        )
        assert desk.gpulayer("plan", "--on", "far", "--", "true").stdout.startswith(
            "it would start"
        )
        assert desk.processes() == []
        desk.gpulayer("use", "local")
        assert desk.run("pwd").stdout.decode().strip() == str(desk.work.resolve())
        desk.gpulayer("use", "lab")
        token = (desk.folder / "home" / "tokens" / "lab").read_text()
        desk.gpulayer("leave", "lab")
        assert os.listdir(desk.folder / "home" / "tokens") == []
        mine = {row["id"]: row for row in served.admin.call("GET", "/v1/tokens")["tokens"]}
        assert mine[token.split("_")[1]]["revoked_at"] is not None


def test_a_token_that_was_revoked_says_what_mends_it(served: Served) -> None:
    with Machine() as desk:
        desk.gpulayer("login", served.link(served.invite(role="viewer")), "--name", "lab")
        token = (desk.folder / "home" / "tokens" / "lab").read_text()
        served.admin.call("DELETE", f"/v1/tokens/{token.split('_')[1]}")
        done = desk.gpulayer("ps", check=4)
        assert "error[unauthorized]" in done.stderr
        assert "gpulayer invite --client" in done.stderr
        assert f"server:      lab, {served.endpoint.url}" in desk.gpulayer("doctor").stdout
        assert f"https://{served.endpoint.host}" in done.stderr


def test_a_join_code_is_no_login(served: Served) -> None:
    with Machine() as desk:
        done = desk.gpulayer("login", served.link(served.invite()), check=4)
        assert "gpulayer join" in done.stderr
        assert os.listdir(desk.folder / "home" / "tokens") == []


def test_run_here_while_a_server_is_chosen(served: Served) -> None:
    with Machine() as desk:
        desk.gpulayer("login", served.link(served.invite(role="submitter")))
        done = subprocess.run(
            [*RUN[:-1], "--on", "here", "--", "pwd"],
            env=desk.environ,
            cwd=desk.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
        )
        assert done.stdout.decode().strip() == str(desk.work.resolve())
