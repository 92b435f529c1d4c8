"""The store that is a folder: what only it does. `test_stores` has the rest."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.errors import RefusedError, StorageError

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


def test_a_planted_link_in_the_store_is_not_followed(artifacts: LocalArtifacts, tmp_path: Path):
    (tmp_path / "secret").write_bytes(TEXT)
    place = artifacts.folder / DIGEST[:2] / DIGEST
    place.parent.mkdir()
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(RefusedError):
        artifacts.open(DIGEST)


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


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip()
