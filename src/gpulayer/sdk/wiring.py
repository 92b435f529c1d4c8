"""The composition root: store, plane and HTTP application of one home, put together.

The local plane's process and an embedded plane wire the same parts. Opening reads and migrates the
database; whoever opens it must hold the home's seat.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Literal

from gpulayer.api.handlers import Handlers, Host
from gpulayer.artifacts import s3
from gpulayer.artifacts.port import ArtifactStore
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.keeping import TIDY_SECONDS
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.errors import GPULayerError
from gpulayer.sdk.places import Places
from gpulayer.sdk.shared_folder import shared_logs
from gpulayer.storage.engine import News
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store

LOG = logging.getLogger("gpulayer.plane")


class Wired:
    """A plane at work, without its socket: the `Service` of `sdk.serving`. Thread-safe."""

    def __init__(
        self,
        places: Places,
        host: Host,
        database: str = "",
        durability: Literal["process", "power"] = "process",
        artifacts: str = "",
    ) -> None:
        """`database` and `artifacts` (a folder, or a bucket's address) replace the home's. Raises
        what the store raises."""
        place = f"{os.uname().nodename}:{places.home}"
        self.store = Store(database or places.database, durability=durability, home=place)
        self._news: News | None = None
        self._clock = SystemClock()
        self._collects: threading.Thread | None = None
        self._collects_at = self._clock.monotonic() + TIDY_SECONDS
        try:
            folder = folder_of(artifacts) or places.artifacts
            self.artifacts = self._artifacts_in(artifacts, folder, place)
            may_share = bool(self.store.plane)
            logs = shared_logs(self.store, folder, place) if may_share else places.logs
            wakeups = Wakeups()
            self.plane = ControlPlane(
                self.store,
                self._clock,
                SystemIds(),
                wakeups,
                LogFolder(logs),
                self.artifacts,
                Settings(kind=host.kind, plane=self.store.plane, home=place),
            )
            self._news = self.store.open_news(self.plane.hear)
            if self._news is not None:
                wakeups.relay = self._news.tell
                self.plane.reconcile().result()  # a plane that is alone need not wait for its tick
            self.handlers = Handlers(self.plane, self.artifacts, host)
        except BaseException:
            if self._news is not None:
                self._news.close()
            self.store.close()
            raise

    def _artifacts_in(self, said: str, folder: str, place: str) -> ArtifactStore:
        if not said.startswith(s3.SCHEME):
            return LocalArtifacts(folder)
        bucket = s3.Bucket(s3.parse(said), os.environ)  # says so where obstore is missing
        from gpulayer.artifacts.bucket import BucketArtifacts
        from gpulayer.sdk import bucket_owner

        bucket_owner.settle(self.store, bucket, place)
        return BucketArtifacts(bucket, folder)

    @property
    def _is_collecting(self) -> bool:
        return self._collects is not None and self._collects.is_alive()

    @property
    def app(self) -> Any:
        """The web stack is loaded for who has a socket."""
        from gpulayer.api.server import App

        return App(self.handlers)

    def unfinished(self) -> int:
        with self.store.read() as reader:
            return reader.unfinished()

    def tick(self) -> None:
        self.plane.reconcile().result()
        now = self._clock.monotonic()
        if now >= self._collects_at and not self._is_collecting:
            self._collects_at = now + TIDY_SECONDS
            # Not on the thread of the tick: leases and deadlines do not wait for it.
            self._collects = threading.Thread(target=self.collect, name="gpulayer-collect")
            self._collects.start()

    def collect(self) -> None:
        """What goes wrong with it is tried again by the next one."""
        try:
            self.plane.forget_old()
        except GPULayerError as error:
            LOG.error("%s: %s %s", error.code, error, error.why)

    def wake(self) -> None:
        self.plane.wakeups.close()

    def dismiss(self) -> None:
        self.plane.leave()

    def close(self) -> None:
        self.plane.stop_forgetting()
        if self._collects is not None:
            self._collects.join()
        self.plane.resign()
        self.wake()
        self.store.close()
        if self._news is not None:
            self._news.close()


def folder_of(artifacts: str) -> str:
    """Of what `--artifacts` says: a bucket has no folder but the home's, for what is on its way."""
    return "" if artifacts.startswith(s3.SCHEME) else artifacts


def uploads_of(artifacts: str) -> str:
    """Where bodies of uploads are collected: on the artifacts' own disk, so that a rename does."""
    return os.path.join(artifacts, ".new")
