"""A second machine: it joins, works, is killed, cut off, sent away, and leaves."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock
from gpulayer.sdk.processes import running
from tests.support.local_home import SECONDS
from tests.support.machine import Machine, joined_to, submitted, until
from tests.support.served import Served

pytestmark = pytest.mark.e2e


ENOUGH = 10
"""Quick answers that no connection gives whose answers wait."""


ONE_OF_EACH = ["agent", "supervisor", "warden"]
"""What a worker is, once who came too late and the keepers of ended jobs have left."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


def with_data(served: Served, name: str, data: str) -> str:
    """A job that reads a data set, on that worker."""
    script = 'cat "$GPULAYER_DATA_WORDS/first"'
    spec = {
        "workload": {"kind": "command", "command": ["sh", "-c", script]},
        "placement": {"target": "remote", "worker_ids": [name]},
        "data": [data],
    }
    return str(served.admin.call("POST", "/v1/jobs", {"spec": spec})["id"])


def workers(served: Served) -> dict[str, str]:
    found = served.admin.call("GET", "/v1/workers")["workers"]
    return {worker["name"]: worker["state"] for worker in found}


def test_it_joins_works_and_leaves_nothing_behind(served: Served) -> None:
    with Machine() as machine:
        line = served.link(served.invite())
        said = machine.gpulayer("join", line, "--name", "lab").stderr
        assert "as lab" in said
        assert "core" in said
        machine.until(lambda: machine.kinds() == ONE_OF_EACH)
        again = machine.gpulayer("join", line).stderr
        assert "works already" in again
        machine.until(lambda: machine.kinds() == ONE_OF_EACH)
        told = machine.gpulayer("doctor").stdout
        assert f"worker of:   {machine.joined.name} as lab" in told
        assert told.count(f"worker of {machine.joined.name}") == 3  # processes
        until(served, job := submitted(served, "lab", "echo $PWD"), "succeeded")
        assert str(machine.folder).encode() in served.log(job)
        assert machine.processes() == []  # no plane, and nothing of one
        machine.gpulayer("leave")
        assert "lab" not in workers(served)
        assert os.listdir(machine.folder / "home" / "joined") == []
        assert machine.strays() == []


def test_no_secret_is_where_a_job_or_a_list_of_processes_shows_it(served: Served) -> None:
    with joined_to(served, "quiet", NAME_OF_A_SECRET="value-of-a-secret") as machine:
        secret = machine.joined.session()
        assert secret is not None
        assert stat.S_IMODE(os.stat(machine.joined.session_file).st_mode) == 0o600
        job = submitted(served, "quiet", "env; cat /proc/self/cmdline; ls -l /proc/self/fd")
        until(served, job, "succeeded")
        told = served.log(job)
        assert secret.encode() not in told
        assert b"value-of-a-secret" not in told
        for _, pid in running(machine.joined.places):
            for name in ("cmdline", "environ"):
                assert secret.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
            soft = next(
                line.split()[4]
                for line in Path(f"/proc/{pid}/limits").read_text().splitlines()
                if line.startswith("Max core file size")
            )
            assert soft == "0"


def test_a_secret_comes_from_the_terminal_that_joined(served: Served) -> None:
    named = {"NAME_OF_A_SECRET": "value-of-a-secret"}
    with joined_to(served, "keeper", "--secret", *named, **named) as machine:
        machine.slay("agent")
        machine.joined  # noqa: B018  the folder is there
        spec = {
            "name": "secretive",
            "workload": {"kind": "command", "command": ["sh", "-c", "echo ${#NAME_OF_A_SECRET}"]},
            "placement": {"target": "remote", "worker_ids": ["keeper"]},
            "secrets": [{"name": "NAME_OF_A_SECRET", "source": "env", "key": "NAME_OF_A_SECRET"}],
        }
        job = served.admin.call("POST", "/v1/jobs", {"spec": spec})["id"]
        until(served, job, "succeeded")
        assert served.log(job) == b"%d\n" % len("value-of-a-secret")


def test_an_agent_that_is_killed_is_replaced_and_the_job_goes_on(served: Served) -> None:
    with joined_to(served, "killed") as machine:
        gate = machine.folder / "gate"
        script = f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two"
        job = submitted(served, "killed", script)
        until(served, job, "running")
        before = dict(running(machine.joined.places))["agent"]
        machine.slay("agent")
        machine.until(lambda: dict(running(machine.joined.places)).get("agent", before) != before)
        gate.touch()
        until(served, job, "succeeded")
        assert served.log(job) == b"one\ntwo\n"


def test_after_all_keepers_are_killed_join_without_a_line_goes_on(served: Served) -> None:
    with joined_to(served, "rebooted") as machine:
        gate = machine.folder / "gate"
        script = f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two"
        job = submitted(served, "rebooted", script)
        until(served, job, "running")
        machine.slay("warden", "agent")
        gate.touch()
        assert "works already" in machine.gpulayer("join").stderr
        until(served, job, "succeeded")
        assert served.log(job) == b"one\ntwo\n"
        machine.until(lambda: machine.kinds() == ONE_OF_EACH)


def test_a_server_that_is_killed_finds_its_worker_and_all_it_did(served: Served) -> None:
    with joined_to(served, "patient") as machine:
        gates = [machine.folder / f"gate-{n}" for n in range(2)]
        script = (
            f"echo one; while [ ! -e {gates[0]} ]; do sleep 0.05; done; echo two; touch {gates[1]}"
        )
        job = submitted(served, "patient", script)
        until(served, job, "running")
        served.end(signal.SIGKILL)
        gates[0].touch()
        machine.until(gates[1].exists)
        served.begin(f"--listen={served.said['address']}")
        until(served, job, "succeeded")
        assert served.log(job) == b"one\ntwo\n"


def test_a_server_that_stops_in_good_order_keeps_its_idle_workers(served: Served) -> None:
    with joined_to(served, "waiting") as machine:
        served.until(lambda: workers(served).get("waiting") == "idle")
        agent = [pid for kind, pid in running(machine.joined.places) if kind == "agent"]
        assert served.end() == 0
        served.begin(f"--listen={served.said['address']}")
        until(served, submitted(served, "waiting", "true"), "succeeded")
        assert [p for kind, p in running(machine.joined.places) if kind == "agent"] == agent


def test_one_that_is_sent_away_ends_what_it_runs_and_may_come_back(served: Served) -> None:
    with joined_to(served, "banned") as machine:
        job = submitted(served, "banned", "exec sleep 600")
        until(served, job, "running")
        served.admin.call("POST", "/v1/workers/banned/revoke", {})
        machine.until(lambda: machine.kinds() == [])
        assert until(served, job, "failed")["reason"] == "worker_lost"
        done = machine.gpulayer("join", check=2)
        assert "joined no server" in done.stderr
        machine.gpulayer("join", served.link(served.invite()), "--name", "banned")
        assert until(served, submitted(served, "banned", "true"), "succeeded")


def test_leaving_waits_for_what_runs(served: Served) -> None:
    with joined_to(served, "polite") as machine:
        gate = machine.folder / "gate"
        job = submitted(served, "polite", f"while [ ! -e {gate} ]; do sleep 0.05; done; echo end")
        until(served, job, "running")
        leaving = subprocess.Popen(
            [sys.executable, "-m", "gpulayer", "leave"],
            env=machine.environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert leaving.stderr is not None
        assert "waiting for 1 job" in leaving.stderr.readline()
        assert workers(served)["polite"] == "draining"
        gate.touch()
        leaving.communicate(timeout=SECONDS)
        assert leaving.returncode == 0
        assert until(served, job, "succeeded")
        assert served.log(job) == b"end\n"
        assert "polite" not in workers(served)


def test_leaving_a_server_that_is_away_says_so_and_leaves(served: Served) -> None:
    with joined_to(served, "alone") as machine:
        served.end()
        done = machine.gpulayer("leave", "--now")
        assert "could not be told" in done.stderr
        assert "gpulayer worker revoke alone" in done.stderr
        assert machine.strays() == []
        served.begin(f"--listen={served.said['address']}")


def test_a_code_that_is_used_up_brings_nobody_and_leaves_nothing(served: Served) -> None:
    line = served.link(served.invite())
    with Machine() as first, Machine() as late:
        first.gpulayer("join", line, "--name", "first")
        done = late.gpulayer("join", line, "--name", "late", check=4)
        assert "error[unauthorized]" in done.stderr
        assert os.listdir(late.folder / "home" / "joined") == []
        assert "late" not in workers(served)


def test_a_taken_name_is_refused_and_the_own_name_is_proposed(served: Served) -> None:
    with joined_to(served, "twin"), Machine() as other:
        done = other.gpulayer("join", served.link(served.invite()), "--name", "twin", check=1)
        assert "error[name-taken]" in done.stderr


def test_another_certificate_gets_no_code(served: Served) -> None:
    with Machine() as machine:
        line = served.link(served.invite())
        done = machine.gpulayer("join", line[:-4] + "0000", check=5)
        assert "error[tls-untrusted]" in done.stderr
        assert f"sha256.{served.endpoint.pin}" in done.stderr
        machine.gpulayer("join", line)  # the code is as good as before


def test_in_the_foreground_it_ends_with_its_terminal_and_stays_a_worker(served: Served) -> None:
    with Machine() as machine:
        line = served.link(served.invite())
        here = subprocess.Popen(
            [sys.executable, "-m", "gpulayer", "join", line, "--name", "front", "--foreground"],
            env=machine.environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert here.stderr is not None
        assert "as front" in here.stderr.readline()
        until(served, submitted(served, "front", "true"), "succeeded")
        here.terminate()
        _, said = here.communicate(timeout=SECONDS)
        assert "gpulayer join" in said
        assert machine.kinds() == []
        machine.gpulayer("join")
        until(served, submitted(served, "front", "true"), "succeeded")


def test_no_answer_waits_for_an_acknowledgement(served: Served) -> None:
    """Without TCP_NODELAY at both ends each answer over TLS takes 40 ms and more (tcp(7)), but for
    a few at the beginning. A busy machine is as slow with many, and never with all."""
    clock, quick = SystemClock(), 0
    for _ in range(300):
        begun = clock.monotonic()
        served.admin.call("GET", "/v1/version")
        quick += clock.monotonic() - begun < 0.03
        if quick == ENOUGH:
            return
    raise AssertionError(f"{quick} of 300 answers were quick")


def test_a_data_set_is_known_by_name_and_its_path_stays_on_its_machine(served: Served) -> None:
    with Machine() as machine:
        words = machine.folder / "a secret place" / "words"
        words.mkdir(parents=True)
        (words / "first").write_text("hello\n")
        line = served.link(served.invite())
        refused = machine.gpulayer("join", line, "--data", "words=/no/such", check=2)
        assert "error[file-not-found]" in refused.stderr
        for wrong in ("words", "w/x=/", "words=", "=/", "words=/\n"):
            assert "error[usage]" in machine.gpulayer("join", line, "--data", wrong, check=2).stderr
        said = machine.gpulayer("join", line, "--name", "reader", "--data", f"words={words}").stderr
        assert "data: words" in said
        job = until(served, with_data(served, "reader", "words"), "succeeded")
        assert b"hello" in served.admin.request("GET", f"/v1/jobs/{job['id']}/logs").data
        waits = with_data(served, "reader", "imagenet")
        served.until(lambda: "imagenet" in json.dumps(looked_at(served, waits)))
        assert "needs data set imagenet, has only words" in json.dumps(looked_at(served, waits))
        words.rename(words.with_name("moved"))
        failed = until(served, with_data(served, "reader", "words"), "failed")
        assert failed["result"]["error"]["slug"] == "data-missing"
        told = [served.admin.call("GET", "/v1/workers"), failed, job]
        assert "secret place" not in json.dumps(told)


def looked_at(served: Served, job: str) -> Any:
    return served.admin.call("GET", f"/v1/jobs/{job}")
