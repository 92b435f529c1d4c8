"""The tables of planes: whose turn it is to schedule. The turn to write is the engine's."""

from __future__ import annotations

from gpulayer.contracts.records import Scheduling
from gpulayer.storage.queries import Queries, Writes

_WHO = (
    "SELECT turn.epoch, planes.id, planes.home, planes.n FROM turn"
    " LEFT JOIN planes ON planes.id = turn.scheduler"
)
_HOMES = "SELECT id, home FROM planes"
_TAKE = "UPDATE turn SET epoch = epoch + 1, scheduler = ? RETURNING epoch"
_NOBODY = "UPDATE turn SET epoch = epoch + 1, scheduler = NULL RETURNING epoch"


class PlaneReads(Queries):
    def scheduling(self) -> Scheduling:
        """Which plane schedules, and whether it is at work."""
        row = self._one(_WHO)
        assert row is not None
        return Scheduling(*row)

    def plane_homes(self) -> dict[str, str]:
        """Where each plane lives, `HOST:FOLDER`."""
        return {row[0]: row[1] for row in self._all(_HOMES)}


class PlaneWrites(Writes):
    epoch: int = 0
    """Of the plane that schedules, until this transaction ends. 0: there is only one plane."""

    def schedule_by(self, plane: str) -> int:
        """From now on `plane` schedules; its epoch. The one before sees it in its next transaction,
        and fences given from now on are above all that were given."""
        self.epoch = self._number(_TAKE, plane)
        return self.epoch

    def nobody_schedules(self) -> None:
        """Until a plane is elected anew."""
        self.epoch = self._number(_NOBODY)
