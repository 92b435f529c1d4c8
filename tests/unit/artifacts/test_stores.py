"""What every store of artifacts is held to: a folder, and a bucket of two servers that have nothing
in common. Artifacts are what their name says, or they are not served."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest

from gpulayer.artifacts.bucket import BucketArtifacts
from gpulayer.artifacts.on_disk import CHUNK
from gpulayer.artifacts.port import ArtifactStore
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.errors import NotFoundError, RefusedError, StorageError
from tests.support.object_stores import ObjectStore

TEXT = b"what a job left"
DIGEST = hashlib.sha256(TEXT).hexdigest()


class Shelf:
    """A store, with what is behind it."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self.artifacts = artifacts

    def kept(self) -> list[str]:
        """Digests of all that is stored, and names of what lies beside it."""
        raise NotImplementedError

    def rot(self, digest: str, data: bytes) -> None:
        """Other bytes under that name."""
        raise NotImplementedError

    def age(self, digest: str, at: float) -> None:
        """It was touched then."""
        raise NotImplementedError


class Folder(Shelf):
    def kept(self) -> list[str]:
        folder = self.artifacts.folder
        found = [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()]
        return sorted(
            str(p) if p.parts[0][0] == "." else p.name for p in found if p.name != ".lock"
        )

    def rot(self, digest: str, data: bytes) -> None:
        path = self.artifacts.folder / digest[:2] / digest
        path.chmod(0o600)
        path.write_bytes(data)

    def age(self, digest: str, at: float) -> None:
        os.utime(self.artifacts.folder / digest[:2] / digest, (at, at))


class InBucket(Shelf):
    artifacts: BucketArtifacts

    def kept(self) -> list[str]:
        keys = [one["path"] for page in obstore.list(self.store) for one in page]
        found = [k.rpartition("/")[2] if k.startswith("sha256/") else f".{k}" for k in keys]
        here = [f".new/{path.name}" for path in (self.artifacts.folder / ".new").iterdir()]
        return sorted(found + here)

    def rot(self, digest: str, data: bytes) -> None:
        obstore.put(self.store, f"sha256/{digest[:2]}/{digest}", data)

    def age(self, digest: str, at: float) -> None:
        self.artifacts._marks.make(digest, at)

    @property
    def store(self) -> obstore.store.S3Store:
        return self.artifacts._objects.bucket.store


@pytest.fixture(params=["folder", "moto", "rclone"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    if request.param == "folder":
        return Folder(LocalArtifacts(tmp_path / "artifacts"))
    server: ObjectStore = request.getfixturevalue(request.param)
    address = f"s3://{server.make_bucket()}/some/prefix"
    return InBucket(server.artifacts(tmp_path / "artifacts", address))


@pytest.fixture
def artifacts(shelf: Shelf) -> ArtifactStore:
    return shelf.artifacts


def test_a_file_is_kept_by_the_digest_of_its_bytes(shelf: Shelf, tmp_path: Path) -> None:
    artifacts = shelf.artifacts
    (tmp_path / "out.txt").write_bytes(TEXT)
    assert artifacts.put_file(tmp_path / "out.txt") == (DIGEST, len(TEXT))
    with artifacts.open(DIGEST) as file:
        assert file.read() == TEXT
        file.seek(5)
        assert file.read() == TEXT[5:]
        assert os.fstat(file.fileno()).st_size == len(TEXT)
    assert artifacts.has(DIGEST)
    assert [(kept.digest, kept.size) for kept in artifacts.stored()] == [(DIGEST, len(TEXT))]
    assert shelf.kept() == [DIGEST]


def test_equal_bytes_are_kept_once(shelf: Shelf) -> None:
    put = shelf.artifacts.put_stream
    assert put([TEXT]) == put([TEXT[:3], b"", TEXT[3:]])
    assert shelf.kept() == [DIGEST]


def test_nothing_is_an_artifact_too(artifacts: ArtifactStore) -> None:
    digest, size = artifacts.put_stream([])
    assert size == 0
    with artifacts.open(digest) as file:
        assert file.read() == b""


def test_other_bytes_than_announced_store_nothing(shelf: Shelf) -> None:
    with pytest.raises(RefusedError) as refused:
        shelf.artifacts.put_stream([b"something else"], expected=DIGEST)
    assert refused.value.code == "digest-mismatch"
    assert shelf.kept() == []
    assert not shelf.artifacts.touch(DIGEST)


def test_a_stream_that_breaks_off_stores_nothing(shelf: Shelf) -> None:
    def breaks_off() -> Iterator[bytes]:
        yield TEXT
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        shelf.artifacts.put_stream(breaks_off())
    assert shelf.kept() == []


def test_a_file_that_is_given_away_is_the_stores(shelf: Shelf) -> None:
    upload = shelf.artifacts.folder / ".new" / "upload-1"
    upload.write_bytes(TEXT)
    assert shelf.artifacts.take(upload, DIGEST) == len(TEXT)
    assert shelf.kept() == [DIGEST]
    with shelf.artifacts.open(DIGEST) as file:
        assert file.read() == TEXT


def test_a_file_that_is_given_away_as_another_is_gone(shelf: Shelf) -> None:
    upload = shelf.artifacts.folder / ".new" / "upload-1"
    upload.write_bytes(b"something else")
    with pytest.raises(RefusedError) as refused:
        shelf.artifacts.take(upload, DIGEST)
    assert refused.value.code == "digest-mismatch"
    assert shelf.kept() == []


def test_what_its_writer_says_of_a_file_is_compared_and_not_made_again(shelf: Shelf) -> None:
    upload = shelf.artifacts.folder / ".new" / "upload-1"
    upload.write_bytes(TEXT)
    with pytest.raises(RefusedError, match="not those that were announced"):
        shelf.artifacts.take(upload, DIGEST, "0" * 64)
    assert not upload.exists()
    assert shelf.kept() == []
    upload.write_bytes(TEXT)
    assert shelf.artifacts.take(upload, DIGEST, DIGEST) == len(TEXT)
    assert shelf.kept() == [DIGEST]


def test_many_are_stored_at_once_or_none(shelf: Shelf) -> None:
    files = [(hashlib.sha256(bytes([n])).hexdigest(), [bytes([n])]) for n in range(34)]
    with pytest.raises(RefusedError, match="not those that were announced"):
        shelf.artifacts.put_many([*files, (DIGEST, [b"other"])])
    assert shelf.kept() == []
    shelf.artifacts.put_many(files)
    wanted = sorted(digest for digest, _ in files)
    assert sorted(kept.digest for kept in shelf.artifacts.stored()) == wanted
    assert shelf.kept() == wanted


def test_a_large_one_comes_back_as_it_was(shelf: Shelf) -> None:
    """More parts than are on their way at once."""
    data = os.urandom(CHUNK) * 21 + b"end"
    digest, size = shelf.artifacts.put_stream([data])
    assert size == len(data)
    with shelf.artifacts.open(digest) as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest  # type: ignore[arg-type]
    assert shelf.kept() == [digest]


def test_asking_whether_it_is_there_makes_it_young(shelf: Shelf) -> None:
    artifacts = shelf.artifacts
    assert not artifacts.touch(DIGEST)
    artifacts.put_stream([TEXT])
    shelf.age(DIGEST, 1000.0)
    assert [kept.touched_at for kept in artifacts.stored()] == [1000.0]
    assert artifacts.touch(DIGEST)
    assert [kept.touched_at > 1600.0 for kept in artifacts.stored()] == [True]


def test_a_damaged_artifact_is_set_aside_and_never_served(shelf: Shelf) -> None:
    artifacts = shelf.artifacts
    artifacts.put_stream([TEXT])
    shelf.rot(DIGEST, TEXT.replace(b"job", b"jab"))
    with pytest.raises(StorageError) as refused:
        artifacts.open(DIGEST)
    assert refused.value.code == "corrupt"
    assert not artifacts.has(DIGEST)
    assert not artifacts.touch(DIGEST)
    assert shelf.kept() == [f".damaged/{DIGEST}"]
    artifacts.put_stream([TEXT])
    with artifacts.open(DIGEST) as file:
        assert file.read() == TEXT


def test_putting_it_again_mends_a_damaged_artifact(shelf: Shelf) -> None:
    shelf.artifacts.put_stream([TEXT])
    shelf.rot(DIGEST, b"rot")
    shelf.artifacts.put_stream([TEXT])
    with shelf.artifacts.open(DIGEST) as file:
        assert file.read() == TEXT


def test_a_symbolic_link_is_not_followed(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(TEXT)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(RefusedError, match="Cannot read it"):
        shelf.artifacts.put_file(tmp_path / "link")
    with pytest.raises(RefusedError):
        shelf.artifacts.take(tmp_path / "link", DIGEST)
    assert shelf.kept() == []


def test_only_regular_files_are_kept(artifacts: ArtifactStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(RefusedError, match="not a regular file"):
            artifacts.put_file(path)
    with pytest.raises(NotFoundError):
        artifacts.put_file(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", DIGEST.upper(), DIGEST + "\n", DIGEST[:-1], "/" * 64]
)
def test_what_is_no_digest_is_not_found(artifacts: ArtifactStore, name: str) -> None:
    for ask in (artifacts.open, artifacts.has, artifacts.delete):
        with pytest.raises(NotFoundError) as refused:
            ask(name)
        assert refused.value.code == "artifact-not-found"
    assert not artifacts.touch(name)


def test_what_is_not_there_is_not_found(artifacts: ArtifactStore) -> None:
    with pytest.raises(NotFoundError) as refused:
        artifacts.open(DIGEST)
    assert refused.value.code == "artifact-not-found"
    assert artifacts.delete(DIGEST) is None


def test_an_open_artifact_outlives_its_deletion(artifacts: ArtifactStore) -> None:
    artifacts.put_stream([TEXT])
    with artifacts.open(DIGEST) as file:
        assert artifacts.delete(DIGEST) == len(TEXT)
        assert file.read() == TEXT
    assert artifacts.delete(DIGEST) is None
    assert not artifacts.has(DIGEST)
    assert not artifacts.touch(DIGEST)


@pytest.mark.parametrize("told", ["put_stream", "put_many", "take", "touch"])
def test_who_was_told_that_it_is_here_counts_on_it(shelf: Shelf, told: str) -> None:
    """Whoever decides to remove it has looked before; what counts is what is so at the removal."""
    artifacts = shelf.artifacts
    artifacts.put_stream([TEXT])
    shelf.age(DIGEST, 1000.0)
    upload = artifacts.folder / ".new" / "upload-1"
    upload.write_bytes(TEXT)
    tell: Callable[[], object] = {
        "put_stream": lambda: artifacts.put_stream([TEXT]),
        "put_many": lambda: artifacts.put_many([(DIGEST, [TEXT])]),
        "take": lambda: artifacts.take(upload, DIGEST),
        "touch": lambda: artifacts.touch(DIGEST),
    }[told]
    tell()
    assert artifacts.delete(DIGEST, before=2000.0) is None
    assert artifacts.has(DIGEST)


def test_leftovers_of_dead_writers_are_swept_by_age(shelf: Shelf) -> None:
    artifacts = shelf.artifacts
    for name, touched in (("old", 1000.0), ("new", 3000.0)):
        leftover = artifacts.folder / ".new" / name
        leftover.write_bytes(b"half")
        os.utime(leftover, (touched, touched))
    assert artifacts.sweep(2000.0, 500.0, dry_run=True) == [(".new/old", 4)]
    assert shelf.kept() == [".new/new", ".new/old"]
    assert artifacts.sweep(2000.0, 500.0) == [(".new/old", 4)]
    assert shelf.kept() == [".new/new"]


def test_memory_does_not_grow_with_the_file(artifacts: ArtifactStore, tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(48 * CHUNK)
    tracemalloc.start()
    try:
        digest, size = artifacts.put_file(tmp_path / "large")
        artifacts.open(digest).close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 48 * CHUNK
    assert peak < 16 * CHUNK
