"""A checkpoint is put back exactly: what is not of it goes, nothing outside the folder is met."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock
from gpulayer.errors import NotFoundError, UsageError
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.steps import restoring

DIGESTS: dict[str, bytes] = {}


def a_file(path: str, data: bytes, **changes: Any) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    DIGESTS[digest] = data
    base = {"path": path, "digest": digest, "size": len(data)}
    return {**base, "executable": False, "mtime_ns": 1_000_000_007, **changes}


class Worker:
    def __init__(self, folder: Path) -> None:
        self.fetched: list[str] = []
        self.gone: list[str] = []
        self.folder = folder / "ck"
        self.folder.mkdir()

        def fetch(digest: str, path: str) -> None:
            self.fetched.append(digest)
            if digest not in DIGESTS:
                raise NotFoundError("artifact-not-found", "no such artifact")
            Path(path).write_bytes(DIGESTS[digest])

        self.cache = ArtifactCache(str(folder / "cache"), fetch, SystemClock())

    def put_back(self, *files: dict[str, Any]) -> None:
        def dispose(path: str) -> None:
            self.gone.append(path)
            (self.folder / path).unlink()

        restoring.put_back(str(self.folder), files, self.cache, dispose)

    def holds(self) -> dict[str, bytes | str]:
        found: dict[str, bytes | str] = {}
        for parent, folders, names in os.walk(self.folder):
            for name in [*names, *(f for f in folders if os.path.islink(Path(parent, f)))]:
                path = Path(parent, name)
                key = str(path.relative_to(self.folder))
                found[key] = os.readlink(path) if path.is_symlink() else path.read_bytes()
        return found


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


def test_an_empty_folder_is_filled_with_times_modes_and_links(worker: Worker) -> None:
    worker.put_back(
        a_file("a/b/w", b"one"),
        a_file("tool", b"#!", executable=True),
        {"path": "newest", "link": "a/b"},
    )
    assert worker.holds() == {"a/b/w": b"one", "tool": b"#!", "newest": "a/b"}
    assert (worker.folder / "a/b/w").stat().st_mtime_ns == 1_000_000_007
    assert (worker.folder / "tool").stat().st_mode & 0o100


def test_what_is_there_already_is_not_fetched_and_what_is_not_of_it_goes(worker: Worker) -> None:
    (worker.folder / "keep").write_bytes(b"same")
    (worker.folder / "torn").write_bytes(b"hal")
    (worker.folder / "step-9").mkdir()
    (worker.folder / "step-9" / "late").write_bytes(b"later than the checkpoint")
    (worker.folder / "w").mkdir()
    (worker.folder / "was-a-file").write_bytes(b"x")
    worker.put_back(
        a_file("keep", b"same"),
        a_file("torn", b"half"),
        a_file("w", b"a file now"),
        a_file("was-a-file/inside", b"y"),
    )
    assert worker.holds() == {
        "keep": b"same",
        "torn": b"half",
        "w": b"a file now",
        "was-a-file/inside": b"y",
    }
    assert sorted(worker.gone) == ["step-9/late", "torn", "was-a-file"]
    assert hashlib.sha256(b"same").hexdigest() not in worker.fetched
    assert not (worker.folder / "step-9").exists()


def test_a_file_of_the_right_size_and_time_with_other_bytes_is_replaced(worker: Worker) -> None:
    file = a_file("w", b"right")
    (worker.folder / "w").write_bytes(b"wrong")
    os.utime(worker.folder / "w", ns=(file["mtime_ns"], file["mtime_ns"]))
    worker.put_back(file)
    assert worker.holds() == {"w": b"right"}


def test_the_job_may_write_in_what_was_put_back_and_the_cache_is_none_the_worse(
    worker: Worker,
) -> None:
    worker.put_back(a_file("w", b"first"))
    with open(worker.folder / "w", "r+b") as file:
        file.write(b"SECOND")
    with worker.cache.open(hashlib.sha256(b"first").hexdigest()) as cached:
        assert cached.read() == b"first"


def test_links_that_lead_elsewhere_are_not_followed(worker: Worker, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w").write_bytes(b"not yours")
    (worker.folder / "a").symlink_to(outside)
    worker.put_back(a_file("a/w", b"mine"))
    assert (outside / "w").read_bytes() == b"not yours"
    assert worker.holds() == {"a/w": b"mine"}


@pytest.mark.parametrize("path", ["../w", "/w", "a/../../w"])
def test_a_path_that_leaves_the_folder_is_refused_before_anything_goes(
    worker: Worker, path: str
) -> None:
    (worker.folder / "mine").write_bytes(b"x")
    with pytest.raises(UsageError):
        worker.put_back(a_file(path, b"x"))
    assert worker.holds() == {"mine": b"x"}
