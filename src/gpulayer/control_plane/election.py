"""Which of the planes that share a store schedules: one at a time, by epoch.

The store's row says who it is and of which epoch; every transaction reads the epoch under the lock
that keeps all others from writing, so `is_mine` can't be overtaken: what a plane decides that was
paused past its time comes with an old epoch, and nothing of it is written.

Whether the elected plane is alive is judged by its commits, of which it makes at least one in each
tick, and on the own monotonic clock: if it commits nothing for `scheduler_seconds`, another plane
takes its place under the next epoch. No two clocks are compared. A plane that is alone with its
store is always elected, and nothing of this costs it anything.
"""

from __future__ import annotations

from gpulayer.contracts.records import Scheduling
from gpulayer.control_plane.ports import Ports, Tx, then

_ALONE = 0
_NOT_ELECTED = -1


class Election:
    """Thread-safe; `stand` is for one thread at a time."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._epoch = _NOT_ELECTED if ports.settings.plane else _ALONE
        self._seen: Scheduling | None = None
        self._since = ports.clock.monotonic()

    @property
    def is_elected(self) -> bool:
        """As far as this plane knows. What it writes asks `is_mine`."""
        return self._epoch != _NOT_ELECTED

    def is_mine(self, tx: Tx) -> bool:
        """Whether this plane schedules, until this transaction ends."""
        if tx.epoch == self._epoch:
            return True
        self._epoch = _NOT_ELECTED
        return False

    def stand(self) -> bool:
        """Take the place if it is free. Whether this plane was elected just now. Waits."""
        if self.is_elected:
            return False
        now = self._ports.clock.monotonic()
        with self._ports.store.read() as reader:
            seen = reader.scheduling()
        if seen != self._seen:
            self._seen, self._since = seen, now
        if not self._is_free(seen, now):
            return False
        epoch = self._ports.write(lambda tx: self._take(tx, seen), durable=True).result()
        if epoch is not None:
            self._epoch = epoch
        return epoch is not None

    def resign(self) -> None:
        """Let another plane take over at once. Twice-safe."""
        if self.is_elected and self._ports.settings.plane:
            then(self._ports.write(self._leave), self._left)

    def _is_free(self, seen: Scheduling, now: float) -> bool:
        settings = self._ports.settings
        if seen.plane is None or seen.plane == settings.plane:
            return True
        if settings.home and seen.home == settings.home:
            return True  # whoever holds the home knows that the one before is dead
        return now - self._since >= settings.scheduler_seconds

    def _take(self, tx: Tx, seen: Scheduling) -> int | None:
        if tx.scheduling() != seen:
            return None
        return tx.schedule_by(self._ports.settings.plane)

    def _leave(self, tx: Tx) -> None:
        if self.is_mine(tx):
            tx.nobody_schedules()

    def _left(self, _: None) -> None:
        self._epoch = _NOT_ELECTED
