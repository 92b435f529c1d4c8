"""Secrets of jobs that come from elsewhere: what a worker's owner allows, and where no value is."""

from __future__ import annotations

import base64
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.sdk.processes import running
from tests.support.machine import Machine, submitted, until
from tests.support.served import Served
from tests.support.wire_tap import WireTap

pytestmark = pytest.mark.e2e

VALUE = "cAnArY-of-the-owner"
MARKS = (
    VALUE.encode(),
    *(base64.b64encode(b"abc"[:n] + VALUE.encode())[4:20] for n in range(3)),
)
"""What is in every way of saying it that a log or a message may have: plain, and base64 at each of
its shifts."""


class Owner(Machine):
    """A machine with a value in its terminal and one in a file."""

    def __init__(self, **environ: str) -> None:
        super().__init__(HF_TOKEN="of-the-terminal-that-joins", **environ)
        self.vault = self.folder / "outside" / "vault"
        self.vault.parent.mkdir()
        self.vault.write_text(VALUE + "\n")
        self.vault.chmod(0o600)

    def join(self, served: Served, name: str, *more: str) -> str:
        """What it says."""
        line = served.link(served.invite())
        return self.gpulayer("join", line, "--name", name, *more).stderr


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


def needing(served: Served, worker: str, key: str, script: str = 'echo "${#S}"') -> str:
    """A job for that worker that needs that secret."""
    return submitted(served, worker, script, secrets=[{"name": "S", "source": "env", "key": key}])


def why(served: Served, job: str) -> str:
    return json.dumps(served.admin.call("GET", f"/v1/jobs/{job}/decision"))


def test_a_worker_gives_what_its_owner_allowed_and_says_so_before_a_job_is_given(
    served: Served,
) -> None:
    with Owner() as machine:
        machine.join(served, "careful", "--secret", "HF_TOKEN")
        job = needing(served, "careful", "HF_TOKEN")
        until(served, job, "succeeded")
        assert served.log(job) == b"%d\n" % len("of-the-terminal-that-joins")
        waits = needing(served, "careful", "PATH")
        served.until(lambda: "needs" in json.dumps(served.admin.call("GET", f"/v1/jobs/{waits}")))
        told = why(served, waits)
        assert '"secret PATH"' in told
        assert '"only HF_TOKEN"' in told
        assert "of-the-terminal" not in told
        spec = served.admin.call("GET", f"/v1/jobs/{waits}")["spec"]
        planned = served.admin.call("POST", "/v1/plan", {"spec": spec, "origin": {}})
        assert '"only HF_TOKEN"' in json.dumps(planned)
        allowed = machine.gpulayer("join", "--secret", "PATH").stderr
        assert "secrets: PATH" in allowed
        until(served, waits, "succeeded")
        assert "careful" in why(served, needing(served, "careful", "HF_TOKEN"))
        machine.gpulayer("join", "--secret", "none")
        looked_at(served, needing(served, "careful", "PATH"))


def looked_at(served: Served, job: str) -> None:
    """Until it was found that no worker has what it needs."""
    served.until(lambda: "has none" in json.dumps(served.admin.call("GET", f"/v1/jobs/{job}")))


def test_a_list_that_is_edited_is_heard_of_at_once_and_one_that_is_unsafe_is_not_known(
    served: Served,
) -> None:
    with Owner() as machine:
        machine.join(served, "edited")
        job = needing(served, "edited", "hf")
        looked_at(served, job)
        listed = Path(machine.joined.declared.secrets)
        listed.write_text(json.dumps({"hf": f"file:{machine.vault}"}))
        listed.chmod(0o644)
        served.until(lambda: "cannot be read" in why(served, job))
        listed.chmod(0o600)
        until(served, job, "succeeded")


def test_what_a_command_prints_reaches_the_job_and_nobody_else(served: Served) -> None:
    with Owner() as machine:
        line = f"hf=command:cat {shlex.quote(str(machine.vault))}"
        assert "secrets: hf" in machine.join(served, "teller", "--secret", line)
        gate = machine.folder / "gate"
        script = f'echo "$S"; echo "$S" | base64; while [ ! -e {gate} ]; do sleep 0.05; done'
        job = needing(served, "teller", "hf", script)
        served.until(lambda: served.log(job).count(b"[redacted:S]") == 2)
        for _, pid in [*running(machine.joined.places), *running(served.places)]:
            for name in ("cmdline", "environ"):
                assert not held_in(Path(f"/proc/{pid}/{name}").read_bytes())
        gate.touch()
        found = until(served, job, "succeeded")
        events = served.admin.call("GET", f"/v1/jobs/{job}/events")
        assert "secrets" in json.dumps(events)  # a step of its preparation, with its duration
        assert not held_in(json.dumps([found, events, why(served, job)]).encode())
        assert files_with_it(machine.folder / "home") == []
        assert files_with_it(served.folder) == []


def test_no_value_goes_over_the_wire() -> None:
    """Not even in what a job says: it is cleaned on the worker's machine."""
    with Served("--no-worker", "--plain") as served, WireTap(served.endpoint.port) as tap:
        link = served.link(served.invite()).replace(served.said["address"], tap.address)
        with Owner() as machine:
            line = f"hf=command:cat {shlex.quote(str(machine.vault))}"
            machine.gpulayer("join", link, "--name", "tapped", "--secret", line)
            script = 'echo "$S"; echo "$S" | base64; echo 1 >"$GPULAYER_OUTPUT_DIR/$S"; exit 3'
            until(served, needing(served, "tapped", "hf", script), "failed")
            assert b'"secrets":["hf"]' in tap.heard.replace(b" ", b"")
            assert b'"exit_code":3' in tap.heard  # what the job said came with its end
            assert b"vault" not in tap.heard
            assert not held_in(bytes(tap.heard))


FAILING = {
    "fails": ("sh -c 'cat {vault}; cat {vault} >&2; exit 4'", "ended with exit code 4"),
    "mute": ("sh -c 'cat {vault} >&2'", "printed nothing"),
    "endless": ("sh -c 'cat {vault}; yes'", "more than 65536 bytes"),
    "absent": ("/no/such/program", "not there"),
}


def test_a_command_that_fails_says_which_worker_and_phase_and_no_value(served: Served) -> None:
    with Owner() as machine:
        sources = [
            f"--secret={name}=command:{line.format(vault=machine.vault)}"
            for name, (line, _) in FAILING.items()
        ]
        machine.join(served, "unlucky", *sources)
        for name, (_, said) in FAILING.items():
            failed = until(served, needing(served, "unlucky", name), "failed")
            error = failed["result"]["error"]
            assert (failed["reason"], failed["exit_code"]) == ("secret_missing", 126)
            assert said in error["message"]
            assert error["where"] == "worker unlucky, phase secrets"
            assert not held_in(json.dumps(failed).encode())
        assert files_with_it(machine.folder / "home") == []
        assert files_with_it(served.folder) == []


def test_join_refuses_what_it_could_not_give(served: Served) -> None:
    with Owner() as machine:
        link = served.link(served.invite())
        machine.vault.chmod(0o644)
        for said, slug, code in (
            ("ABSENT", "secret-missing", 1),
            ("hf=env:ABSENT", "secret-missing", 1),
            ("hf=file:/no/such", "secret-missing", 1),
            (f"hf=file:{machine.vault}", "secret-unsafe", 1),
            ("hf=pass show hf", "usage", 2),
            ("hf=command:", "usage", 2),
            ("hf=command:'", "usage", 2),
            ("../hf", "usage", 2),
            ("GPULAYER_TOKEN", "usage", 2),
            ("*=command:x", "usage", 2),
        ):
            refused = machine.gpulayer("join", link, "--secret", said, check=code).stderr
            assert f"error[{slug}]" in refused
            assert VALUE not in refused
        assert not os.path.exists(machine.folder / "home" / "joined")


def test_the_worker_of_a_server_gives_and_has_what_serve_is_told() -> None:
    with Owner() as machine:
        words = machine.folder / "outside" / "words"
        words.write_text("hello\n")
        more = ("--secret", "HF_TOKEN", "--secret", f"hf=file:{machine.vault}",
                "--data", f"words={words}")  # fmt: skip
        with Served(*more, HF_TOKEN="of-the-terminal-that-serves") as served:
            spec = {
                "workload": {"kind": "command", "command": ["sh", "-c", SHOWS]},
                "placement": {"target": "local"},
                "secrets": [{"name": "HF_TOKEN"}, {"name": "S", "key": "hf"}],
                "data": ["words"],
            }
            job = str(served.client("submitter").call("POST", "/v1/jobs", {"spec": spec})["id"])
            until(served, job, "succeeded")
            assert served.log(job) == b"27 19 hello\n"
            served.kill("agent")  # the next one may give the same
            job = str(served.client("submitter").call("POST", "/v1/jobs", {"spec": spec})["id"])
            until(served, job, "succeeded")
            for kind, pid in running(served.places):
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                assert b"of-the-terminal" not in environ, kind
            assert not held_in(b"".join(map(bytes_of, served.folder.rglob("*"))))
            spec["secrets"] = [{"name": "S", "key": "OTHER"}]
            waits = str(served.client("submitter").call("POST", "/v1/jobs", {"spec": spec})["id"])
            served.until(lambda: "only HF_TOKEN, hf" in why(served, waits))


SHOWS = 'echo "${#HF_TOKEN} ${#S} $(cat "$GPULAYER_DATA_WORDS")"'


def held_in(data: bytes) -> bool:
    return any(mark in data for mark in MARKS)


def files_with_it(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if held_in(bytes_of(path))]


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
