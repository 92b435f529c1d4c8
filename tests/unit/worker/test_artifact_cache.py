"""A worker fetches what it needs once, and never uses what is not what it is called."""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpulayer.clock import Clock, SystemClock
from gpulayer.contracts.keeping import CACHE_SECONDS, UPLOAD_SECONDS
from gpulayer.errors import RefusedError
from gpulayer.worker.artifact_cache import ArtifactCache
from tests.support.clocks import FakeClock


class Plane:
    """Has artifacts, and counts how often each was asked for."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.lies = False

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.known[digest] = data
        return digest

    def fetch(self, digest: str, path: str) -> None:
        self.asked.append(digest)
        with open(path, "xb") as file:
            file.write(b"lie" if self.lies else self.known[digest])


@pytest.fixture
def plane() -> Plane:
    return Plane()


def cache_of(
    tmp_path: Path, plane: Plane, most: int = 1 << 30, clock: Clock | None = None
) -> ArtifactCache:
    return ArtifactCache(str(tmp_path / "cache"), plane.fetch, clock or SystemClock(), most)


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").iterdir())


def test_it_is_fetched_once_also_by_the_next_worker(tmp_path: Path, plane: Plane) -> None:
    digest = plane.put(b"x" * 100)
    for cache in (cache_of(tmp_path, plane), cache_of(tmp_path, plane)):
        for number in range(2):
            with cache.open(digest) as file:
                assert file.read() == b"x" * 100
            target = tmp_path / f"{id(cache)}-{number}"
            cache.stage(digest, str(target))
            assert target.read_bytes() == b"x" * 100
    assert plane.asked == [digest]


def test_many_threads_fetch_it_once(tmp_path: Path, plane: Plane) -> None:
    digest, cache = plane.put(b"x"), cache_of(tmp_path, plane)
    gate = threading.Barrier(8)

    def use(number: int) -> None:
        gate.wait(30)
        cache.stage(digest, str(tmp_path / str(number)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert plane.asked == [digest]


def test_other_bytes_than_announced_are_refused_and_not_kept(tmp_path: Path, plane: Plane) -> None:
    digest, cache = plane.put(b"x"), cache_of(tmp_path, plane)
    plane.lies = True
    with pytest.raises(RefusedError) as refused:
        cache.open(digest)
    assert refused.value.code == "digest-mismatch"
    assert names(tmp_path) == []
    plane.lies = False
    assert cache.open(digest).read() == b"x"


def test_a_fetch_that_breaks_off_is_gone_on_with(tmp_path: Path, plane: Plane) -> None:
    digest = plane.put(b"half and half")
    had: list[bytes] = []

    def breaks(digest: str, path: str) -> None:
        with open(path, "ab") as file:
            had.append(Path(path).read_bytes())
            file.write(plane.known[digest][file.tell() :][:8])
        if len(had) == 1:
            raise ConnectionResetError

    cache = ArtifactCache(str(tmp_path / "cache"), breaks, SystemClock())
    with pytest.raises(ConnectionResetError):
        cache.open(digest)
    assert names(tmp_path) == [f".{digest}"], "under its own name it is whole or not there"
    assert cache.open(digest).read() == b"half and half"
    assert had == [b"", b"half and"]
    assert names(tmp_path) == [digest]


def test_a_rest_that_holds_something_else_is_fetched_anew(tmp_path: Path, plane: Plane) -> None:
    digest = plane.put(b"right")
    rest = tmp_path / "cache" / f".{digest}"
    rest.parent.mkdir()
    rest.write_bytes(b"wrong")
    asked: list[bool] = []

    def goes_on(digest: str, path: str) -> None:
        asked.append(os.path.exists(path))
        if not asked[-1]:
            plane.fetch(digest, path)

    cache = ArtifactCache(str(tmp_path / "cache"), goes_on, SystemClock())
    assert cache.open(digest).read() == b"right"
    assert asked == [True, False]


def test_what_a_job_changed_is_fetched_again(tmp_path: Path, plane: Plane) -> None:
    digest, cache = plane.put(b"right"), cache_of(tmp_path, plane)
    cache.open(digest).close()
    kept = tmp_path / "cache" / digest
    kept.chmod(0o600)
    kept.write_bytes(b"wrong")
    os.utime(kept, (1, 1))
    assert cache.open(digest).read() == b"right"
    assert plane.asked == [digest] * 2


def test_a_job_cannot_change_the_cache_through_its_input(tmp_path: Path, plane: Plane) -> None:
    digest, cache = plane.put(b"right"), cache_of(tmp_path, plane)
    cache.stage(digest, str(tmp_path / "input"))
    try:
        (tmp_path / "input").write_bytes(b"wrong")
    except PermissionError:
        pass  # a hard link of a file that nobody may write
    assert cache.open(digest).read() == b"right"
    assert plane.asked == [digest]


def test_the_least_recently_used_make_room(tmp_path: Path, plane: Plane) -> None:
    one, two, three = (plane.put(bytes([n]) * 40) for n in range(3))
    cache = cache_of(tmp_path, plane, most=100)
    for digest in (one, two, one, three):
        cache.open(digest).close()
    assert names(tmp_path) == sorted([one, three])
    assert plane.asked == [one, two, three]
    large = plane.put(bytes(500))
    assert cache.open(large).read() == bytes(500)  # larger than the cache, and needed now
    assert names(tmp_path) == [large]


def test_what_no_task_uses_for_long_goes(tmp_path: Path, plane: Plane) -> None:
    clock = FakeClock(4e9)  # later than any file that is made now
    cache = cache_of(tmp_path, plane, clock=clock)
    used, unused = plane.put(b"used"), plane.put(b"unused")
    for digest in (used, unused):
        cache.open(digest).close()
    clock.advance(CACHE_SECONDS - 60)
    cache.open(used).close()
    cache.tidy()
    assert names(tmp_path) == sorted([used, unused])
    clock.advance(120)
    cache.tidy()
    assert names(tmp_path) == [used]
    cache.open(unused).close()
    assert plane.asked == [used, unused, unused]


def test_what_a_killed_fetch_left_goes(tmp_path: Path, plane: Plane) -> None:
    clock = FakeClock()
    cache = cache_of(tmp_path, plane, clock=clock)
    cache.tidy()  # nothing was ever fetched
    whole = plane.put(b"whole")
    cache.open(whole).close()
    half = tmp_path / "cache" / f".{'0' * 64}"
    half.write_bytes(b"half")
    os.utime(half, (clock.now(), clock.now()))
    clock.advance(UPLOAD_SECONDS - 1)
    cache.tidy()
    assert half.exists()
    clock.advance(1)
    cache.tidy()
    assert names(tmp_path) == [whole]
