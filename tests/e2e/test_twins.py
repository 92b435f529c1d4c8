"""Two real agents on one credential: a disk was copied, or a backup restored."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.test_joined import Machine, joined_to, until, workers
from tests.support.served import Served

pytestmark = pytest.mark.e2e


def copied(source: Machine, target: Machine) -> None:
    """What makes a machine a worker, file by file."""
    folder = target.folder / "home" / "joined" / source.joined.name
    folder.mkdir(mode=0o700, parents=True)
    for name in ("worker.json", "session"):
        shutil.copy2(Path(source.joined.places.state) / name, folder / name)


def test_the_newer_one_stays_and_begins_when_the_older_one_has_ended() -> None:
    with (
        Served("--no-worker") as served,
        joined_to(served, "lab") as older,
        Machine() as newer,
    ):
        pids = older.folder / "pids"
        script = (
            f"for pid in $(cat {pids}); do kill -0 $pid && echo both; done 2>/dev/null; "
            f"echo $$ >> {pids}; [ $(wc -l < {pids}) = 2 ] && exit; exec sleep 600"
        )
        spec = {
            "name": "train",
            "workload": {"kind": "command", "command": ["sh", "-c", script]},
            "placement": {"target": "remote", "worker_ids": ["lab"]},
            "retry": {"max_attempts": 2, "retry_on": ["worker_lost"]},
        }
        pids.touch()
        job = str(served.admin.call("POST", "/v1/jobs", {"spec": spec})["id"])
        until(served, job, "running")
        older.until(lambda: pids.read_text().endswith("\n"))
        copied(older, newer)
        newer.gpulayer("join")
        older.until(lambda: older.kinds() == [])
        ended = until(served, job, "succeeded")
        assert (ended["attempt"], served.log(job)) == (2, b"")

        told = older.gpulayer("doctor").stdout
        assert "another machine works by its name and credential" in told
        assert f"gpulayer leave {older.joined.name}" in told
        older.gpulayer("leave")
        assert workers(served) == {"lab": "idle"}, "the other one's right is untouched"
        older.gpulayer("join", served.link(served.invite()), "--name", "lab-again")
        assert workers(served).keys() == {"lab", "lab-again"}
        assert newer.kinds() == ["agent", "supervisor", "warden"]
