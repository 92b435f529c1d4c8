"""Artifacts that a worker fetches and stores past its plane, and through it where that fails."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import pytest

from gpulayer.api.worker_channel import HttpChannel
from gpulayer.artifacts.bucket import BucketArtifacts
from gpulayer.artifacts.s3 import Bucket, parse
from gpulayer.clock import SystemClock
from gpulayer.errors import StorageError
from gpulayer.worker.artifact_cache import ArtifactCache
from tests.support.object_stores import ObjectStore
from tests.support.served_plane import ServedPlane

MB = 1 << 20
DATA = os.urandom(MB) * 9
DIGEST = hashlib.sha256(DATA).hexdigest()


class ElsewhereForWorkers(BucketArtifacts):
    """The plane reaches the store, and its workers do not."""

    def _signed(self, method: str, key: str) -> str:
        url = urlsplit(super()._signed(method, key))
        return url._replace(netloc="127.0.0.1:9").geturl()


class Site:
    def __init__(self, plane: ServedPlane, folder: Path) -> None:
        self.plane = plane
        self.channel = HttpChannel.over(plane.socket)
        self.cache = ArtifactCache(
            str(folder / "cache"), self.channel.get_artifact, SystemClock(), 1 << 40
        )
        (folder / "out").write_bytes(DATA)
        self.out = str(folder / "out")

    def fetched(self) -> bytes:
        with self.cache.open(DIGEST) as file:
            return file.read()


@pytest.fixture(params=["near", "elsewhere"])
def site(request: pytest.FixtureRequest, moto: ObjectStore, tmp_path: Path) -> Iterator[Site]:
    kind = BucketArtifacts if request.param == "near" else ElsewhereForWorkers
    bucket = Bucket(parse(f"s3://{moto.make_bucket()}"), moto.environ)
    plane = ServedPlane(tmp_path, kind(bucket, tmp_path / "artifacts"))
    site = Site(plane, tmp_path)
    try:
        plane.serve()
        yield site
    finally:
        site.channel.close()
        plane.close()


def test_large_files_go_past_the_plane_if_they_can(
    site: Site, request: pytest.FixtureRequest
) -> None:
    carried = 1 if "near" in request.node.name else 0
    assert site.channel.put_artifact(site.out) == DIGEST
    assert site.channel.direct.carried == carried
    assert [kept.digest for kept in site.plane.artifacts.stored()] == [DIGEST]
    assert site.channel.put_artifact(site.out) == DIGEST, "it is there: nothing is sent"
    assert site.channel.direct.carried == carried
    assert site.fetched() == DATA
    assert site.channel.direct.carried == 2 * carried


@pytest.mark.parametrize("site", ["near"], indirect=True)
def test_what_is_damaged_in_the_store_is_found_out_by_the_plane(site: Site) -> None:
    site.plane.artifacts.put_stream([DATA])
    store = site.plane.artifacts._objects.bucket.store  # type: ignore[attr-defined]
    obstore.put(store, f"sha256/{DIGEST[:2]}/{DIGEST}", DATA[:-1] + b"?")
    with pytest.raises(StorageError) as refused:
        site.fetched()
    assert refused.value.code == "corrupt"
    assert site.channel.direct.carried == 1
    assert not site.plane.artifacts.has(DIGEST)


def test_a_plane_without_a_bucket_is_asked_once(tmp_path: Path) -> None:
    plane = ServedPlane(tmp_path)
    site = Site(plane, tmp_path)
    try:
        plane.serve()
        assert site.channel.put_artifact(site.out) == DIGEST
        assert site.fetched() == DATA
        assert site.channel.direct.carried == 0
        assert site.channel.direct.asked == 1
    finally:
        site.channel.close()
        plane.close()
