"""Messages that no session can show: faults of ours, of the system, of another client."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.cli.main import main
from gpulayer.clock import SystemClock
from gpulayer.errors import NotFoundError, PreparationError, RefusedError
from gpulayer.sdk import local
from gpulayer.sdk.failures import failure_of
from gpulayer.sdk.places import Places
from tests.support.env import Env


def test_a_worker_that_nobody_knows_is_said_to_be_unknown() -> None:
    with Env() as env, pytest.raises(NotFoundError) as raised:
        env.plane.drain("nobody")
    assert raised.value.code == "worker-not-found"


def test_an_artifact_is_never_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(RefusedError) as raised:
        LocalArtifacts(tmp_path / "store").put_file(tmp_path / "link")
    assert raised.value.code == "not-allowed"


def test_what_the_system_would_not_start_is_a_failed_start() -> None:
    now = SystemClock().now()
    job = {
        "id": "train-00000000",
        "state": "failed",
        "reason": "preparation",
        "message": "train: Resource temporarily unavailable",
        "exit_code": 126,
        "finished_at": now,
        "spec": {"workload": {"kind": "command", "command": ["train"]}},
    }
    error = failure_of(job)
    assert isinstance(error, PreparationError)
    assert error.code == "start-failed"
    assert "Resource temporarily unavailable" in str(error)


@pytest.mark.parametrize(
    ("missing", "why"), [("/tmp/env/bin/python", "that Python has gone since"), ("t", "PATH")]
)
def test_a_python_that_went_while_its_job_waited_is_told_from_a_wrong_name(
    missing: str, why: str
) -> None:
    job = {
        "id": "python-00000000",
        "state": "failed",
        "reason": "not_found",
        "message": f"{missing}: No such file or directory",
        "origin": {"interpreter": {"path": "/tmp/env/bin/python"}},
        "spec": {"workload": {"kind": "command", "command": ["python", "t.py"]}},
    }
    assert why in failure_of(job).why


def test_a_plane_that_dies_at_birth_is_told_with_its_last_words(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "plane.log").write_text("first\nlast words\n")
    error = local.start_failed(Places(str(home), str(tmp_path / "run")), "it died")
    assert error.code == "plane-start-failed"
    assert error.why == "it died: last words"
    assert error.where == str(home / "plane.log")


def test_a_fault_of_ours_is_one_line_and_debug_shows_where(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["submit", "-f", "\0"])
    told = capsys.readouterr().err
    assert ended.value.code == 1
    assert told.startswith("error[internal]: ValueError")
    assert "  help: gpulayer --debug submit\n" in told
    assert "Traceback" not in told
    with pytest.raises(ValueError, match="null byte"):
        main(["--debug", "submit", "-f", "\0"])
    with pytest.raises(ValueError, match="null byte"):
        main(["submit", "--debug", "-f", "\0"])
