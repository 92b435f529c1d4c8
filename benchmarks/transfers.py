"""Artifacts to a plane and from it, beside a raw copy with SHA-256: each pair in turn.

To a folder over the private socket; to a bucket through the plane, and past it as a worker does.
The object store is rclone on this very machine, so that server, plane and client share its cores.
What an upload stored is removed before the next, as the peer's target is: memory that a machine has
just got back is filled several times as fast as memory that it never had.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.scratch import GPULAYER
from gpulayer.api import transfers
from gpulayer.api.wire import Wire
from gpulayer.api.worker_channel import HttpChannel
from gpulayer.artifacts import s3
from gpulayer.artifacts.bucket import BucketArtifacts
from gpulayer.artifacts.port import ArtifactStore
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.sdk import fetching
from gpulayer.sdk.places import Places
from tests.support.object_stores import Rclone
from tests.support.served_plane import ServedPlane

MEGABYTES = 128
PAIRS = 3
PIECE = 1 << 20


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    subprocess.run([GPULAYER, "run", "--", "true"], env=environ, check=True)
    places = Places.find(environ)
    wire = Wire(places.plane_socket)
    with tempfile.TemporaryDirectory() as folder:
        work = Work(Path(folder), LocalArtifacts(os.path.join(places.home, "artifacts")))
        yield from _paired("upload to a folder", work, work.copy, lambda: work.upload(wire))
        yield from _paired("download from a folder", work, work.copy, lambda: work.download(wire))
        wire.close()
        yield from _of_a_bucket(work)


def _of_a_bucket(work: Work) -> Iterator[Figure]:
    server = Rclone()
    bucket = s3.Bucket(s3.parse(f"s3://{server.make_bucket()}"), server.environ)
    work.store = BucketArtifacts(bucket, work.folder / "artifacts")
    plane = ServedPlane(work.folder, work.store)
    plane.serve()
    channel, wire = HttpChannel.over(plane.socket), Wire(plane.socket)

    def put() -> None:
        work.hash()
        import obstore

        with open(work.file, "rb") as file:
            obstore.put(bucket.store, "peer", file)

    def get() -> None:
        import obstore

        seen = hashlib.sha256()
        with open(work.target(), "wb") as file:
            for piece in obstore.get(bucket.store, "peer").stream(min_chunk_size=PIECE):
                seen.update(piece)
                file.write(piece)

    def past_up() -> None:
        channel.put_artifact(str(work.file))

    def past_down() -> None:
        target = work.target()
        found = channel.get_artifact(work.digest, str(target))
        channel.direct._latest.clear()
        if found is None:
            with open(target, "rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        assert found == work.digest

    try:
        yield from _paired("upload to a bucket", work, put, lambda: work.upload(wire))
        yield from _paired("download from a bucket", work, get, lambda: work.download(wire))
        yield from _paired("a worker's upload past the plane", work, put, past_up)
        get()
        yield from _paired("a worker's download past the plane", work, get, past_down)
        assert channel.direct.carried == 2 * PAIRS
    finally:
        channel.close()
        wire.close()
        plane.close()
        server.close()


class Work:
    """One file, another one for each upload: what is there is not sent."""

    def __init__(self, folder: Path, store: ArtifactStore) -> None:
        self.folder = folder
        self.store = store
        self.file = folder / "file"
        self.digest = ""
        self.renew()

    def renew(self) -> None:
        if self.digest:
            self.store.delete(self.digest)
        with open(self.file, "wb") as file:
            file.writelines(os.urandom(PIECE) for _ in range(MEGABYTES))
        self.digest = self.hash()
        os.sync()

    def target(self) -> Path:
        path = self.folder / "target"
        path.unlink(missing_ok=True)
        return path

    def hash(self) -> str:
        with open(self.file, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def copy(self) -> None:
        """Read, hashed, written and on the disk."""
        with open(self.file, "rb") as source, open(self.target(), "wb") as sink:
            seen = hashlib.sha256()
            while data := source.read(PIECE):
                seen.update(data)
                sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())

    def upload(self, wire: Wire) -> None:
        with open(self.file, "rb") as file:
            transfers.upload(wire, self.digest, file, MEGABYTES * PIECE)

    def download(self, wire: Wire) -> None:
        with open(self.target(), "wb") as sink:
            fetching.copy(wire, self.digest, sink)


def _paired(
    name: str, work: Work, peer: Callable[[], object], ours: Callable[[], object]
) -> Iterator[Figure]:
    spent: list[tuple[float, float]] = []
    for _ in range(PAIRS):
        if "upload" in name:
            work.renew()
        spent.append((_seconds(peer), _seconds(ours)))
    theirs, mine = (statistics.median(part) for part in zip(*spent, strict=True))
    yield Figure(f"{name}, {MEGABYTES} MB", MEGABYTES / mine, "/s", PAIRS)
    yield Figure(f"{name}, the raw way", MEGABYTES / theirs, "/s", PAIRS, is_peer=True)
    ratio = statistics.median(p / m for p, m in spent)
    yield Figure(f"{name}, of the raw way", ratio, "x", PAIRS, 0.8)


def _seconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
