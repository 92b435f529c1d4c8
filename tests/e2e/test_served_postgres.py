"""Two served planes on one PostgreSQL database, as a person starts them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gpulayer.errors import GPULayerError
from tests.e2e.test_joined import joined_to
from tests.support.postgres import PostgresServer
from tests.support.served import Served

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def pair(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Served]]:
    folder = tmp_path_factory.mktemp("shared") / "artifacts"
    shared = ("--no-worker", "--database", postgres.fresh(), "--artifacts", str(folder))
    with Served("--name", "one", *shared) as one, Served("--name", "two", *shared) as two:
        yield one, two


def run(served: Served, worker: str) -> str:
    spec = {
        "name": "job",
        "workload": {"kind": "command", "command": ["echo", "hello"]},
        "placement": {"target": "remote", "worker_ids": [worker]},
    }
    return str(served.admin.call("POST", "/v1/jobs", {"spec": spec})["id"])


def is_well(served: Served, job: str) -> bool:
    """Once it has ended."""
    told = served.admin.call("GET", f"/v1/jobs/{job}?wait=20", park=20)
    for _ in range(3):
        if told["finished_at"] is not None:
            break
        told = served.admin.call("GET", f"/v1/jobs/{job}?wait=20", park=20)
    return bool(told["state"] == "succeeded" and told["log_complete"])


def test_a_folder_of_its_own_is_refused(pair: tuple[Served, Served], tmp_path: Path) -> None:
    one, _ = pair
    address = one.argv[one.argv.index("--database") + 1]
    other = ("--database", address, "--artifacts", str(tmp_path / "other"))
    with Served("--no-worker", *other) as third:
        assert third.said["error"]["code"] == "folder-not-shared"
    away = ("--database", "postgresql:///nothing?host=/nowhere")
    with Served("--no-worker", *away) as fourth:
        assert fourth.said["error"]["code"] == "database-unreachable"


def test_a_job_of_one_runs_at_the_other_and_outlives_the_scheduler(
    pair: tuple[Served, Served],
) -> None:
    one, two = pair
    with joined_to(one, "lab-one"), joined_to(two, "lab-two"):
        assert {w["name"] for w in two.admin.call("GET", "/v1/workers")["workers"]} == {
            "lab-one",
            "lab-two",
        }
        jobs = [run(asked, worker) for asked in pair for worker in ("lab-one", "lab-two")]
        assert all(is_well(asked, job) for asked in pair for job in jobs)
        for asked in pair:
            raw = asked.admin.request("GET", f"/v1/jobs/{jobs[1]}/logs").data
            assert b"hello" in raw
        one.end(signal.SIGKILL)
        assert is_well(two, run(two, "lab-two"))


def test_a_plane_goes_on_by_itself_when_its_database_is_back() -> None:
    server = PostgresServer()
    address = server.fresh()
    try:
        with Served("--no-worker", "--database", address) as served:
            server.kill()
            with pytest.raises(GPULayerError) as away:
                served.admin.call("GET", "/v1/jobs")
            assert away.value.code == "database-unreachable"
            server.start()
            before = turn(address)
            served.until(lambda: turn(address) >= before + 3)  # nobody asks: its own tick writes
            assert served.admin.call("GET", "/v1/jobs") == {"jobs": []}
            server.kill()
            assert served.end() == 0  # it goes in good order without one too
    finally:
        server.close()


def turn(address: str) -> int:
    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT n FROM gpulayer.turn").fetchone()
    assert row is not None
    return int(row[0])
