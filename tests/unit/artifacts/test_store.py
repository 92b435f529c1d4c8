"""Artifacts are what their name says, or they are not served."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpulayer.artifacts.store import CHUNK, LocalArtifacts
from gpulayer.errors import NotFoundError, RefusedError, StorageError

TEXT = b"what a job left"
DIGEST = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def artifacts(tmp_path: Path) -> LocalArtifacts:
    return LocalArtifacts(tmp_path / "artifacts")


def written(artifacts: LocalArtifacts) -> list[str]:
    return [
        str(p.relative_to(artifacts.folder))
        for p in artifacts.folder.rglob("*")
        if p.is_file() and p.name != ".lock"
    ]


def test_a_file_is_kept_by_the_digest_of_its_bytes(artifacts: LocalArtifacts, tmp_path: Path):
    (tmp_path / "out.txt").write_bytes(TEXT)
    assert artifacts.put_file(tmp_path / "out.txt") == (DIGEST, len(TEXT))
    with artifacts.open(DIGEST) as file:
        assert file.read() == TEXT
    assert artifacts.path(DIGEST).read_bytes() == TEXT
    assert [(kept.digest, kept.size) for kept in artifacts.stored()] == [(DIGEST, len(TEXT))]


def test_equal_bytes_are_kept_once(artifacts: LocalArtifacts):
    assert artifacts.put_stream([TEXT]) == artifacts.put_stream([TEXT[:3], b"", TEXT[3:]])
    assert written(artifacts) == [f"{DIGEST[:2]}/{DIGEST}"]


def test_nothing_is_an_artifact_too(artifacts: LocalArtifacts):
    digest, size = artifacts.put_stream([])
    assert size == 0
    assert artifacts.open(digest).read() == b""


def test_other_bytes_than_announced_store_nothing(artifacts: LocalArtifacts):
    with pytest.raises(RefusedError) as refused:
        artifacts.put_stream([b"something else"], expected=DIGEST)
    assert refused.value.code == "digest-mismatch"
    assert written(artifacts) == []


def test_a_stream_that_breaks_off_stores_nothing(artifacts: LocalArtifacts):
    def breaks_off() -> Iterator[bytes]:
        yield TEXT
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        artifacts.put_stream(breaks_off())
    assert written(artifacts) == []


def test_many_are_stored_at_once_or_none(artifacts: LocalArtifacts):
    files = [(hashlib.sha256(bytes([n])).hexdigest(), [bytes([n])]) for n in range(80)]
    with pytest.raises(RefusedError, match="not those that were announced"):
        artifacts.put_many([*files, (DIGEST, [b"other"])])
    assert written(artifacts) == []
    artifacts.put_many(files)
    assert [kept.digest for kept in artifacts.stored()] == sorted(digest for digest, _ in files)
    assert len(written(artifacts)) == 80


def test_asking_whether_it_is_there_makes_it_young(artifacts: LocalArtifacts):
    assert not artifacts.touch(DIGEST)
    artifacts.put_stream([TEXT])
    os.utime(artifacts.path(DIGEST), (1000.0, 1000.0))
    assert artifacts.touch(DIGEST)
    assert [kept.touched_at > 1600.0 for kept in artifacts.stored()] == [True]


def test_a_damaged_artifact_is_set_aside_and_never_served(artifacts: LocalArtifacts):
    artifacts.put_stream([TEXT])
    path = artifacts.path(DIGEST)
    path.chmod(0o600)
    path.write_bytes(TEXT.replace(b"job", b"jab"))
    with pytest.raises(StorageError) as refused:
        artifacts.open(DIGEST)
    assert refused.value.code == "corrupt"
    assert not artifacts.has(DIGEST)
    assert written(artifacts) == [f".damaged/{DIGEST}"]
    artifacts.put_stream([TEXT])
    assert artifacts.open(DIGEST).read() == TEXT


def test_putting_it_again_mends_a_damaged_artifact(artifacts: LocalArtifacts):
    artifacts.put_stream([TEXT])
    artifacts.path(DIGEST).chmod(0o600)
    artifacts.path(DIGEST).write_bytes(b"rot")
    artifacts.put_stream([TEXT])
    assert artifacts.open(DIGEST).read() == TEXT


def test_a_symbolic_link_is_not_followed(artifacts: LocalArtifacts, tmp_path: Path):
    (tmp_path / "secret").write_bytes(TEXT)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(RefusedError, match="Cannot read it"):
        artifacts.put_file(tmp_path / "link")
    assert written(artifacts) == []


def test_a_planted_link_in_the_store_is_not_followed(artifacts: LocalArtifacts, tmp_path: Path):
    (tmp_path / "secret").write_bytes(TEXT)
    place = artifacts.folder / DIGEST[:2] / DIGEST
    place.parent.mkdir()
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(RefusedError):
        artifacts.open(DIGEST)


def test_only_regular_files_are_kept(artifacts: LocalArtifacts, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(RefusedError, match="not a regular file"):
            artifacts.put_file(path)
    with pytest.raises(NotFoundError):
        artifacts.put_file(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", DIGEST.upper(), DIGEST + "\n", DIGEST[:-1], "/" * 64]
)
def test_what_is_no_digest_is_not_found(artifacts: LocalArtifacts, name: str):
    for ask in (artifacts.open, artifacts.path, artifacts.has, artifacts.delete):
        with pytest.raises(NotFoundError) as refused:
            ask(name)
        assert refused.value.code == "artifact-not-found"


def test_an_open_artifact_outlives_its_deletion(artifacts: LocalArtifacts):
    artifacts.put_stream([TEXT])
    with artifacts.open(DIGEST) as file:
        assert artifacts.delete(DIGEST) == len(TEXT)
        assert file.read() == TEXT
    assert artifacts.delete(DIGEST) is None
    assert not artifacts.has(DIGEST)


def test_putting_it_again_makes_it_young(artifacts: LocalArtifacts):
    artifacts.put_stream([TEXT])
    os.utime(artifacts.path(DIGEST), (1000.0, 1000.0))
    assert [kept.touched_at for kept in artifacts.stored()] == [1000.0]
    artifacts.put_stream([TEXT])
    assert [kept.touched_at > 1600.0 for kept in artifacts.stored()] == [True]


@pytest.mark.parametrize("told", ["put_stream", "put_many", "touch"])
def test_who_was_told_that_it_is_here_counts_on_it(artifacts: LocalArtifacts, told: str):
    """Whoever decides to remove it has looked before; what counts is what is so at the removal."""
    artifacts.put_stream([TEXT])
    os.utime(artifacts.path(DIGEST), (1000.0, 1000.0))
    tell = {
        "put_stream": lambda: artifacts.put_stream([TEXT]),
        "put_many": lambda: artifacts.put_many([(DIGEST, [TEXT])]),
        "touch": lambda: artifacts.touch(DIGEST),
    }[told]
    tell()
    assert artifacts.delete(DIGEST, before=2000.0) is None
    os.utime(artifacts.path(DIGEST), (1000.0, 1000.0))
    assert artifacts.delete(DIGEST, before=2000.0) == len(TEXT)


def test_nobody_is_told_that_it_is_here_while_it_is_removed(artifacts: LocalArtifacts):
    """Another process holds the lock of a removal: who asks waits for its outcome."""
    artifacts.put_stream([TEXT])
    with open(artifacts.folder / ".lock", "w") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = pool.submit(artifacts.touch, DIGEST)
        with pytest.raises(TimeoutError):  # without the lock it is answered in this time
            answer.result(0.2)
        artifacts.path(DIGEST).unlink()
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert answer.result(60) is False


def test_leftovers_of_dead_writers_are_swept_by_age(artifacts: LocalArtifacts):
    for name, touched in (("old", 1000.0), ("new", 3000.0)):
        leftover = artifacts.folder / ".new" / name
        leftover.write_bytes(b"half")
        os.utime(leftover, (touched, touched))
    damaged = artifacts.folder / ".damaged" / DIGEST
    damaged.write_bytes(b"rot")
    os.utime(damaged, (1000.0, 1000.0))
    assert artifacts.sweep(2000.0, 500.0, dry_run=True) == [(".new/old", 4)]
    assert len(written(artifacts)) == 3
    assert artifacts.sweep(2000.0, 500.0) == [(".new/old", 4)]
    assert artifacts.sweep(2000.0, 2000.0) == [(f".damaged/{DIGEST}", 3)]
    assert written(artifacts) == [".new/new"]


def test_a_deleted_home_is_not_made_again(tmp_path: Path):
    with pytest.raises(StorageError) as refused:
        LocalArtifacts(tmp_path / "gone" / "artifacts")
    assert refused.value.code == "read-only"
    assert not (tmp_path / "gone").exists()


def test_a_disk_that_refuses_stores_nothing_and_says_so(artifacts: LocalArtifacts):
    code = f"""
import resource, signal
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    LocalArtifacts({str(artifacts.folder)!r}).put_stream([bytes(8192)])
except StorageError as error:
    print(error.code)
"""
    assert run_python(code) == "disk-error"
    assert written(artifacts) == []


def test_memory_does_not_grow_with_the_file(artifacts: LocalArtifacts, tmp_path: Path):
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
    assert peak < 8 * CHUNK


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip()
