"""A bucket that is away, refuses, is full or slow; connections that are cut; writers that die; and
uploads that a worker makes by itself."""

from __future__ import annotations

import hashlib
import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import pytest

from gpulayer.artifacts import s3
from gpulayer.artifacts.bucket import BucketArtifacts
from gpulayer.artifacts.objects import PART_BYTES
from gpulayer.artifacts.s3 import Bucket
from gpulayer.clock import SystemClock
from gpulayer.errors import NotFoundError, RefusedError, StorageError, UsageError
from gpulayer.sdk.waiting import look_again
from tests.support.cutting import Cutting
from tests.support.faults import small_disk
from tests.support.object_stores import KEY, SECRET, ObjectStore, Rclone, environ_for
from tests.support.web_site import answering

TEXT = b"what a job left"
DIGEST = hashlib.sha256(TEXT).hexdigest()
MB = 1 << 20
ME, OTHER = "a" * 16, "b" * 16


def keys(artifacts: BucketArtifacts) -> list[str]:
    return sorted(
        one["path"] for page in obstore.list(artifacts._objects.bucket.store) for one in page
    )


@pytest.fixture
def artifacts(moto: ObjectStore, tmp_path: Path) -> BucketArtifacts:
    return moto.artifacts(tmp_path / "artifacts", f"s3://{moto.make_bucket()}/x")


@pytest.fixture
def strict(rclone: ObjectStore, tmp_path: Path) -> BucketArtifacts:
    return rclone.artifacts(tmp_path / "artifacts", f"s3://{rclone.make_bucket()}/x")


# --- what a store refuses ----------------------------------------------------------------------
def test_a_wrong_key_is_refused_and_never_told(rclone: ObjectStore, tmp_path: Path) -> None:
    wrong = "wrong-secret-000000000000"
    address = f"s3://{rclone.make_bucket()}"
    for more in (
        {"AWS_SECRET_ACCESS_KEY": wrong},
        {"AWS_ACCESS_KEY_ID": "wrong-access-key-0000"},
    ):
        other = rclone.artifacts(tmp_path / "artifacts", address, **more)
        for ask in (lambda: other.put_stream([TEXT]), lambda: other.touch(DIGEST)):  # noqa: B023
            with pytest.raises(StorageError) as refused:
                ask()
            assert refused.value.code == "bucket-refused"
            told = repr(refused.value.to_json())
            assert not any(secret in told for secret in (wrong, SECRET, KEY, "wrong-access"))
        assert list((tmp_path / "artifacts" / ".new").iterdir()) == []


@pytest.mark.parametrize("server", ["moto", "rclone"])
def test_a_bucket_that_is_not_there(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    nowhere = store.artifacts(tmp_path / "artifacts", "s3://no-such-bucket/x")
    with pytest.raises(StorageError) as refused:
        nowhere.put_stream([TEXT])
    assert refused.value.code == "bucket-not-found"
    assert "s3://no-such-bucket/x" in refused.value.where
    with pytest.raises(StorageError) as refused:
        nowhere.open(DIGEST)
    assert refused.value.code == "bucket-not-found"


def test_a_store_that_is_away_and_comes_back(tmp_path: Path) -> None:
    server = Rclone()
    try:
        artifacts = server.artifacts(tmp_path / "artifacts", f"s3://{server.make_bucket()}")
        artifacts.put_stream([TEXT])
        server.kill()
        with pytest.raises(StorageError) as refused:
            artifacts.put_stream([b"more"])
        assert refused.value.code == "bucket-unreachable"
        assert server.endpoint in refused.value.where
        assert artifacts.touch(DIGEST), "what it holds is known without it"
        server.start()
        with artifacts.open(DIGEST) as file:
            assert file.read() == TEXT
    finally:
        server.close()


def test_a_store_that_says_nothing(rclone: ObjectStore, tmp_path: Path) -> None:
    bucket = Bucket(s3.parse(f"s3://{rclone.make_bucket()}"), rclone.environ, silent_seconds=0.3)
    slow = BucketArtifacts(bucket, tmp_path / "artifacts")
    rclone.freeze()
    try:
        with pytest.raises(StorageError) as refused:
            slow.put_stream([TEXT])
    finally:
        rclone.freeze(False)
    assert refused.value.code == "bucket-unreachable"


@pytest.mark.parametrize(
    ("status", "code"), [(507, "XMinioStorageFull"), (403, "QuotaExceeded"), (507, "Other")]
)
def test_a_full_store_says_so(status: int, code: str, tmp_path: Path) -> None:
    """As MinIO, Ceph and others answer; neither of our servers has a quota."""
    said = f"<Error><Code>{code}</Code><Message>no room for {SECRET}</Message></Error>"
    with answering(status, said.encode()) as port:
        bucket = Bucket(s3.parse("s3://bucket"), environ_for(f"http://127.0.0.1:{port}"))
        with pytest.raises(StorageError) as refused:
            BucketArtifacts(bucket, tmp_path / "artifacts").put_stream([TEXT])
    assert refused.value.code == "bucket-full"
    assert refused.value.why == f"{code}: no room for ..."


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to mount")
def test_a_store_whose_disk_is_full_keeps_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk:
        server = Rclone(disk.path)
        try:
            artifacts = server.artifacts(tmp_path / "artifacts", f"s3://{server.make_bucket()}")
            with pytest.raises(StorageError):
                artifacts.put_stream([os.urandom(MB)] * 8)
            assert list(artifacts.stored()) == []
            artifacts.put_stream([TEXT])
            assert [kept.digest for kept in artifacts.stored()] == [DIGEST]
        finally:
            server.kill()


def test_no_key_goes_over_a_line_that_everybody_can_read() -> None:
    with pytest.raises(StorageError) as refused:
        Bucket(s3.parse("s3://bucket"), environ_for("http://10.0.0.5:9000"))
    assert refused.value.code == "not-encrypted"
    meant = environ_for("http://10.0.0.5:9000") | {"AWS_ALLOW_HTTP": "true"}
    assert Bucket(s3.parse("s3://bucket"), meant).where == "s3://bucket at http://10.0.0.5:9000"


@pytest.mark.parametrize(
    "text",
    ["s3://", "s3://b", "s3://key:secret@bucket", "s3://Bucket", "s3://bucket/a?b", "gs://b"],
)
def test_an_address_is_a_bucket_and_a_prefix(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        s3.parse(text)
    assert "secret" not in str(refused.value)
    assert s3.parse("s3://bucket//a/b/") == ("bucket", "a/b")


# --- cut and dead -------------------------------------------------------------------------------
@pytest.mark.parametrize("server", ["moto", "rclone"])
def test_a_download_that_is_cut_comes_whole(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """With parts from where it was, and where the store gives none from the start."""
    store: ObjectStore = request.getfixturevalue(server)
    bucket = f"s3://{store.make_bucket()}"
    data = os.urandom(MB) * 10
    digest, _ = store.artifacts(tmp_path / "near", bucket).put_stream([data])
    every = 3 * MB if server == "moto" else 11 * MB
    with Cutting(("127.0.0.1", store.port), every=every) as line:
        endpoint = f"http://127.0.0.1:{line.address[1]}"
        far = store.artifacts(tmp_path / "far", bucket, AWS_ENDPOINT_URL=endpoint)
        with far.open(digest) as file:
            assert file.read() == data
        assert line.cuts >= (3 if server == "moto" else 0)


def test_an_upload_whose_lines_are_cut_stores_nothing(rclone: ObjectStore, tmp_path: Path) -> None:
    bucket = f"s3://{rclone.make_bucket()}"
    data = os.urandom(MB) * 20
    with Cutting(("127.0.0.1", rclone.port), every=3 * MB) as line:
        endpoint = f"http://127.0.0.1:{line.address[1]}"
        cut = rclone.artifacts(tmp_path / "cut", bucket, AWS_ENDPOINT_URL=endpoint)
        with pytest.raises(StorageError) as refused:
            cut.put_stream([data])
        assert line.cuts
    assert refused.value.code == "bucket-unreachable"
    whole = rclone.artifacts(tmp_path / "whole", bucket)
    assert keys(whole) == []
    digest, _ = whole.put_stream([data])
    assert whole.touch(digest)


def test_a_writer_that_is_killed_in_the_middle_leaves_no_artifact(
    rclone: ObjectStore, tmp_path: Path
) -> None:
    bucket = f"s3://{rclone.make_bucket()}"
    size = 6 * PART_BYTES
    with Cutting(("127.0.0.1", rclone.port), every=1 << 40) as line:
        environ = {**os.environ, **environ_for(f"http://127.0.0.1:{line.address[1]}")}
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITES, bucket, str(tmp_path / "artifacts"), str(size)],
            env=environ,
        )
        try:
            clock = SystemClock()
            end = clock.monotonic() + 60
            while line.up < 2 * PART_BYTES:
                assert clock.monotonic() < end
                look_again()
        finally:
            rclone.freeze()
            writer.send_signal(signal.SIGKILL)
            writer.wait(60)
            rclone.freeze(False)
    assert writer.returncode == -signal.SIGKILL
    after = rclone.artifacts(tmp_path / "artifacts", bucket)
    digest = hashlib.sha256(bytes(size)).hexdigest()
    assert keys(after) == []
    assert not after.touch(digest)
    assert [name for name, _ in after.sweep(2e12, 2e12)], "what it had collected is swept"
    assert after.put_stream([bytes(size)]) == (digest, size)


WRITES = """
import os, sys
from gpulayer.artifacts import s3
from gpulayer.artifacts.bucket import BucketArtifacts
from gpulayer.artifacts.s3 import Bucket
bucket, folder, size = sys.argv[1:]
BucketArtifacts(Bucket(s3.parse(bucket), os.environ), folder).put_stream([bytes(int(size))])
"""


def test_what_others_removed_is_noticed(artifacts: BucketArtifacts) -> None:
    artifacts.put_stream([TEXT])
    obstore.delete(artifacts._objects.bucket.store, f"sha256/{DIGEST[:2]}/{DIGEST}")
    with pytest.raises(NotFoundError):
        artifacts.open(DIGEST)
    assert not artifacts.touch(DIGEST)
    artifacts.put_stream([TEXT])
    obstore.delete(artifacts._objects.bucket.store, f"sha256/{DIGEST[:2]}/{DIGEST}")
    artifacts._marks.make(DIGEST, 1000.0)
    assert list(artifacts.stored()) == []
    assert not artifacts.touch(DIGEST)


def test_a_new_folder_learns_what_the_bucket_holds(moto: ObjectStore, tmp_path: Path) -> None:
    bucket = f"s3://{moto.make_bucket()}"
    moto.artifacts(tmp_path / "old", bucket).put_stream([TEXT])
    new = moto.artifacts(tmp_path / "new", bucket)
    assert not new.knows([DIGEST])
    assert [kept.digest for kept in new.stored()] == [DIGEST]
    assert new.knows([DIGEST])
    assert new.delete(DIGEST, before=1000.0) is None, "it is as young as the object"


# --- uploads of a worker's own ------------------------------------------------------------------
def put(url: str, data: bytes) -> int:
    parts = urlsplit(url)
    line = http.client.HTTPConnection(parts.netloc, timeout=60)
    line.request("PUT", f"{parts.path}?{parts.query}", data, {"Content-Type": "x/y"})
    status = line.getresponse().status
    line.close()
    return status


DATA = os.urandom(MB) * 9
DATA_DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize("server", ["artifacts", "strict"])
def test_an_upload_past_the_plane_is_an_artifact_once_it_was_read(
    server: str, request: pytest.FixtureRequest
) -> None:
    artifacts: BucketArtifacts = request.getfixturevalue(server)
    offer = artifacts.offer(ME, len(DATA))
    assert offer is not None
    assert SECRET not in offer.url
    assert put(offer.url, DATA) == 200
    assert not artifacts.touch(DATA_DIGEST)
    assert artifacts.arrived(ME, offer.name, DATA_DIGEST) == len(DATA)
    assert keys(artifacts) == [f"sha256/{DATA_DIGEST[:2]}/{DATA_DIGEST}"]
    with artifacts.open(DATA_DIGEST) as file:
        assert file.read() == DATA


def test_a_lie_about_an_upload_is_found_out(artifacts: BucketArtifacts) -> None:
    offer = artifacts.offer(ME, len(DATA))
    assert offer is not None
    put(offer.url, DATA[:-1] + b"?")
    with pytest.raises(RefusedError) as refused:
        artifacts.arrived(ME, offer.name, DATA_DIGEST)
    assert refused.value.code == "digest-mismatch"
    assert keys(artifacts) == []
    assert not artifacts.touch(DATA_DIGEST)


def test_who_writes_again_afterwards_changes_nothing(artifacts: BucketArtifacts) -> None:
    offer = artifacts.offer(ME, len(DATA))
    assert offer is not None
    put(offer.url, DATA)
    artifacts.arrived(ME, offer.name, DATA_DIGEST)
    assert put(offer.url, b"something else") == 200
    with artifacts.open(DATA_DIGEST) as file:
        assert file.read() == DATA
    assert artifacts.sweep(2e12, 2e12) == [(f"new/{offer.name}", len(b"something else"))]
    assert keys(artifacts) == [f"sha256/{DATA_DIGEST[:2]}/{DATA_DIGEST}"]


def test_an_upload_is_its_senders(artifacts: BucketArtifacts) -> None:
    offer = artifacts.offer(ME, len(DATA))
    assert offer is not None
    put(offer.url, DATA)
    for whose, name in (
        (OTHER, offer.name), (ME, "../sha256/x"), (ME, ""), (ME, f"{ME}-{'0' * 32}"),
    ):  # fmt: skip
        with pytest.raises(UsageError):
            artifacts.arrived(whose, name, DATA_DIGEST)
    assert keys(artifacts) == [f"new/{offer.name}"]


def test_small_and_huge_uploads_go_through_the_plane(artifacts: BucketArtifacts) -> None:
    assert artifacts.offer(ME, 1000) is None
    assert artifacts.offer(ME, 6 << 30) is None
