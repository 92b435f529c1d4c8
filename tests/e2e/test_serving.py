"""The process of `serve`: it takes the home over and gives it back, and keeps what it promised."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.api.endpoints import parse
from gpulayer.errors import GPULayerError
from tests.support.local_home import SECONDS, watched
from tests.support.served import Served

pytestmark = pytest.mark.e2e


@pytest.fixture
def home() -> Iterator[Served]:
    """Nothing runs yet: `begin` starts it."""
    served = Served()
    try:
        yield served
    except BaseException as error:
        error.add_note(served.last_words())
        raise
    finally:
        served.__exit__(None, None, None)


def cli(home: Served, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = home.typed(sys.executable, "-m", "gpulayer", *words, text=True)
    assert done.returncode == code, done
    return done


def test_a_running_job_does_not_notice_who_is_the_plane(home: Served) -> None:
    os.mkfifo(home.folder / "go")
    job = ("sh", "-c", "echo began; read x < ../go; echo went $x; exit 5")
    with home.popen(*job, stdout=subprocess.PIPE) as attached:
        home.until_running(1)
        with watched(home.pid("plane")) as gone:
            home.begin()
            assert gone(SECONDS)
        assert home.wire().call("GET", "/v1/version")["kind"] == "serve"
        assert home.admin.call("GET", "/v1/jobs")["jobs"][0]["state"] == "running"
        assert home.end() == 0
        (home.folder / "go").write_text("on\n")
        out, _ = attached.communicate(timeout=SECONDS)
    assert (attached.returncode, out.splitlines()[-1]) == (5, b"went on")
    home.until(lambda: home.jobs()[0]["exit_code"] == 5)
    assert home.wire().call("GET", "/v1/version")["kind"] == "local"  # started by the agent


def test_a_restart_keeps_certificate_tokens_and_jobs(home: Served) -> None:
    home.begin()
    pin, token = home.endpoint.pin, home.token("viewer")
    spec = {"name": "kept", "workload": {"kind": "command", "command": ["true"]}}
    job = home.client("submitter").call("POST", "/v1/jobs", {"spec": spec})["id"]
    home.process.send_signal(signal.SIGKILL)
    home.process.wait(SECONDS)
    home.begin()
    assert home.endpoint.pin == pin
    assert home.bearer(token).call("GET", f"/v1/jobs/{job}")["id"] == job
    assert home.said["durability"] == "power"


def test_a_home_that_is_served_is_not_taken(home: Served) -> None:
    home.begin()
    why = "it serves other machines"
    done = cli(home, "serve", "--listen", "127.0.0.1:0", code=1)
    assert "error[plane-held]" in done.stderr
    assert why in done.stderr
    code = "import gpulayer as gl\nwith gl.connect(embedded=True): pass"
    done = subprocess.run(
        [sys.executable, "-c", code], env=home.environ, capture_output=True, text=True, check=False
    )
    assert why in done.stderr
    assert home.process.poll() is None


def test_without_a_worker_nothing_runs_here(home: Served) -> None:
    home.begin("--no-worker")
    assert home.processes() == ["plane"]
    assert home.admin.call("GET", "/v1/workers") == {"workers": []}


def test_without_a_worker_no_job_is_left_alone(home: Served) -> None:
    with home.popen("sleep", "600") as attached:
        home.until_running(1)
        home.begin("--no-worker")
        assert home.said["error"]["code"] == "job-not-finished"
        assert len(home.until_running(1)) == 1
        attached.kill()


def test_plain_http_is_for_this_machine(home: Served) -> None:
    home.begin("--plain")
    assert home.said["fingerprint"] is None
    assert home.login.startswith("http://127.0.0.1:")
    assert home.admin.call("GET", "/v1/jobs") == {"jobs": []}
    for name in ("evil.example", "localhost.evil.example", "10.0.0.1"):  # DNS rebinding
        with pytest.raises(GPULayerError) as caught:
            home.admin.request("GET", "/v1/jobs", headers={"Host": name})
        assert caught.value.code in ("not-allowed", "not-a-server")


def test_what_it_was_told_is_not_among_its_arguments(home: Served) -> None:
    other = str(home.folder / "secret-db.sqlite")
    home.begin("--database", other)
    pid = home.pid("plane")
    with open(f"/proc/{pid}/cmdline") as file:
        assert "secret-db" not in file.read()
    assert os.path.exists(other)
    assert home.said["database"] == "sqlite"


def test_rights_are_handed_out_and_taken_back_from_the_command_line(home: Served) -> None:
    refused = cli(home, "invite", code=2)
    assert "serves no other machine" in refused.stderr
    home.begin()
    line = cli(home, "invite", "--uses", "2", "--ttl", "15m", "-l", "rack=4").stdout
    assert line.startswith("gpulayer join gl://127.0.0.1:")
    assert parse(line.split()[-1]).endpoint == home.endpoint
    assert cli(home, "invite", "--client").stdout.startswith("gpulayer login gl://")

    told = cli(home, "token", "create", "--role", "viewer", "--name", "ci")
    token = told.stdout.strip()
    assert token not in told.stderr
    assert home.bearer(token).call("GET", "/v1/jobs") == {"jobs": []}
    (row,) = (line for line in cli(home, "token", "ls").stdout.splitlines() if " ci " in line)
    assert row.split()[1:4] == ["client", "viewer", "ci"]
    assert "good for 89 d" in row
    assert token not in cli(home, "token", "ls", "--json").stdout
    cli(home, "token", "revoke", row.split()[0])
    with pytest.raises(GPULayerError, match="'ci'"):
        home.bearer(token).call("GET", "/v1/jobs")
    assert row.split()[0] not in cli(home, "token", "ls", "-q").stdout.split()
    assert row.split()[0] in cli(home, "token", "ls", "-aq").stdout.split()

    assert [worker["id"] for worker in workers_of(home)] == ["local"]
    cli(home, "worker", "drain", "local")
    assert state_of(home) == "draining"
    cli(home, "worker", "resume", "local")
    assert state_of(home) == "idle"
    assert cli(home, "worker", "label", "local", "rack=4", "x=").stderr.endswith("is labelled\n")
    assert cli(home, "worker", "drain", "nobody", code=3).stdout == ""
    assert cli(home, "worker", "label", "local", code=2).stdout == ""

    told = cli(home, "doctor").stdout
    assert f"sha256.{home.endpoint.pin}" in told


def workers_of(home: Served) -> list[dict[str, Any]]:
    """Once there are any: the first comes a moment after its plane."""
    found: list[dict[str, Any]] = []

    def there() -> bool:
        found[:] = home.wire().call("GET", "/v1/workers")["workers"]
        return bool(found)

    home.until(there)
    return found


def state_of(home: Served) -> Any:
    return workers_of(home)[0]["state"]
