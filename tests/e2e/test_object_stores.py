"""A served plane whose artifacts are in a bucket: jobs of a worker that joined, collection, the
death of the plane and of the store in the middle, and whose a bucket is."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.api import transfers
from gpulayer.api.wire import Wire
from gpulayer.errors import GPULayerError
from tests.support.cutting import Cutting
from tests.support.object_stores import SECRET, ObjectStore, Rclone
from tests.support.served import Served
from tests.support.travel import Person

pytestmark = pytest.mark.e2e

MB = 1 << 20


@pytest.fixture(scope="module")
def store() -> Iterator[Rclone]:
    server = Rclone()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def prefix(store: Rclone) -> str:
    return f"s3://{store.make_bucket()}/team"


@pytest.fixture
def served(store: Rclone, prefix: str) -> Iterator[Served]:
    with Served("--no-worker", "--artifacts", prefix, **store.environ) as served:
        yield served


def objects(store: Rclone, prefix: str, part: str = "sha256") -> list[str]:
    folder = store.folder / prefix.removeprefix("s3://") / part
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def home_of(served: Served) -> Path:
    return served.folder / "home"


def test_input_and_output_of_a_job_of_another_machine(moto: ObjectStore) -> None:
    address = f"s3://{moto.make_bucket()}/team"
    with (
        Served("--no-worker", "--artifacts", address, **moto.environ) as served,
        Person() as worker,
        Person() as person,
    ):
        worker.gpulayer("join", served.link(served.invite()), "--name", "lab")
        person.gpulayer("login", served.login)
        data = os.urandom(MB) * 20
        (person.work / "input").write_bytes(data)
        try:
            script = (
                "tail -c +2 $GPULAYER_INPUT_DIR/input > $GPULAYER_OUTPUT_DIR/large;"
                "env > $GPULAYER_OUTPUT_DIR/small"
            )
            person.gpulayer("run", "--input", "input", "--get=got", "--", "sh", "-c", script)
        finally:
            worker.gpulayer("leave")
        assert (person.work / "got" / "large").read_bytes() == data[1:]
        assert "AWS_" not in (person.work / "got" / "small").read_text()
        told = served.wire().request("GET", "/metrics").data.decode()
        assert 'route="arrived_artifact",status="200"} 1' in told, "it went past the plane"
        kept = [path for path in home_of(served).rglob("*") if path.is_file()]
        assert not any(SECRET.encode() in path.read_bytes() for path in kept)


def test_gc_removes_what_no_job_names_from_the_bucket_too(
    served: Served, store: Rclone, prefix: str
) -> None:
    wire = served.wire()
    named, unnamed = (os.urandom(MB) for _ in range(2))
    digests = [hashlib.sha256(data).hexdigest() for data in (named, unnamed)]
    for digest, data in zip(digests, (named, unnamed), strict=True):
        wire.request("PUT", transfers.ARTIFACT + digest, data)
    ref = {"artifact": f"artifact://sha256/{digests[0]}", "path": "x"}
    spec = {"workload": {"kind": "command", "command": ["true"]}, "inputs": [ref]}
    wire.call("POST", "/v1/jobs", {"spec": spec})
    assert wire.call("POST", "/v1/gc", {})["artifacts"] == 0, "who has just put it will name it"
    for mark in (home_of(served) / "artifacts" / ".marks").rglob("*"):
        os.utime(mark, (1000, 1000))
    would = wire.call("POST", "/v1/gc", {"dry_run": True})
    assert [item["name"] for item in would["items"]] == [digests[1]]
    assert objects(store, prefix) == sorted(digests)
    done = wire.call("POST", "/v1/gc", {})
    assert (done["artifacts"], done["artifact_bytes"]) == (1, MB)
    assert objects(store, prefix) == [digests[0]]


def test_a_plane_that_is_killed_while_it_stores_has_no_half_of_it(
    served: Served, store: Rclone, prefix: str
) -> None:
    data = os.urandom(MB) * 20
    digest = hashlib.sha256(data).hexdigest()

    def put() -> None:
        try:
            served.wire().request("PUT", transfers.ARTIFACT + digest, data)
        except GPULayerError:
            pass

    store.freeze()
    try:
        putting = threading.Thread(target=put)
        putting.start()
        new = home_of(served) / "artifacts" / ".new"
        served.until(lambda: [p.stat().st_size for p in new.glob("upload-*")] == [len(data)])
        served.process.kill()
        served.process.wait(60)
        putting.join()
    finally:
        store.freeze(False)
    served.begin()
    wire = served.wire()
    assert wire.call("POST", transfers.MISSING, {"digests": [digest]})["missing"] == [digest]
    assert objects(store, prefix) == []
    wire.request("PUT", transfers.ARTIFACT + digest, data)
    assert objects(store, prefix) == [digest]
    assert wire.request("GET", transfers.ARTIFACT + digest).data == data


def test_a_transfer_that_is_cut_goes_on_from_where_it_was(
    served: Served, store: Rclone, prefix: str, tmp_path: Path
) -> None:
    data = os.urandom(MB) * 12
    digest = hashlib.sha256(data).hexdigest()
    with Cutting(served.places.plane_socket, every=4 * MB) as line:
        wire = Wire(str(line.address), tries=1)
        transfers.upload(wire, digest, io.BytesIO(data), len(data))
        assert line.cuts >= 2
        assert line.up <= len(data) + line.cuts * MB // 2
        assert objects(store, prefix) == [digest]
        before = line.cuts
        with (tmp_path / "copy").open("wb") as sink:
            transfers.download(wire, digest, sink)
        assert line.cuts - before >= 2
        wire.close()
    assert (tmp_path / "copy").read_bytes() == data


def test_outputs_wait_for_a_store_that_is_away(store: Rclone, prefix: str) -> None:
    with Served("--artifacts", prefix, **store.environ) as served:
        script = "read line < go; echo kept > $GPULAYER_OUTPUT_DIR/out"
        os.mkfifo(served.work / "go")
        words = (sys.executable, "-m", "gpulayer", "submit", "-q", "--", "sh", "-c", script)
        job = served.typed(*words).stdout.decode().strip()
        served.until_running(1)
        store.kill()
        try:
            (served.work / "go").write_text("now\n")
            refused = 'route="missing_artifacts",status="507"'
            served.until(lambda: refused in served.wire().request("GET", "/metrics").data.decode())
            assert served.jobs()[0]["state"] == "running"
        finally:
            store.start()
        ended = served.wire().call("GET", f"/v1/jobs/{job}?wait=60", park=60.0)
        assert (ended["state"], [o["path"] for o in ended["outputs"]]) == ("succeeded", ["out"])
        assert ended["note"] == ""


def test_a_place_in_a_bucket_is_one_planes(served: Served, store: Rclone, prefix: str) -> None:
    with Served("--no-worker", "--artifacts", prefix, **store.environ) as other:
        error = other.said["error"]
        assert error["code"] == "bucket-taken"
        assert error["where"].startswith(prefix)
        assert str(home_of(served)) in error["why"]
    served.end()
    served.begin()
    assert "error" not in served.said, "it is still its own"
