"""Jobs that a pass judges once: their shapes differ in the time limit alone."""

from __future__ import annotations

from functools import cached_property

from gpulayer.contracts.decision import Outcome, Shape, Verdict
from gpulayer.control_plane.scheduler import explain
from gpulayer.control_plane.scheduler.columns import Fleet, positions
from gpulayer.control_plane.scheduler.gang import Candidates


class Kind:
    """What is judged once: shapes that differ in their limit alone, on one side of the
    reservation."""

    def __init__(self, fleet: Fleet, shape: Shape, outlives: bool) -> None:
        self._fleet = fleet
        self.shape = shape
        """Without its limit."""
        self._outlives = outlives
        self.columns = fleet.columns(shape, outlives)
        self._candidates: Candidates | None = None
        self._version = -1
        """Of the fleet, when it was told last."""
        self._told: tuple[tuple[Verdict, ...], dict[Outcome, str]] = ((), {})

    @property
    def candidates(self) -> Candidates:
        if self._candidates is None:
            self._candidates = Candidates(self._fleet, self.shape, self.columns, self._outlives)
        return self._candidates

    @cached_property
    def is_hopeless(self) -> bool:
        """Whether the registered workers, all free and fully known, would still be too few. No
        placement changes that."""
        if not self._fleet.machines:
            return False
        possible = self._fleet.possible(self.columns)
        return all(
            self._nodes(possible & self._fleet.of_target(target)) < self.shape.nodes
            for target in self.shape.targets
        )

    def _nodes(self, machines: int) -> int:
        """How many nodes of the shape these machines could ever have."""
        if self.shape.nodes == 1 or self.shape.distinct:
            return machines.bit_count()
        most = self.candidates.most
        return sum(most(self._fleet.machines[i]) for i in positions(machines))

    def told(self, detail: int) -> tuple[Verdict, ...]:
        """Why it waits."""
        if self._version != self._fleet.version:
            self._version = self._fleet.version
            self._told = (explain.verdicts(self._fleet, self.columns, detail), {})
        return self._told[0]

    def summary(self, outcome: Outcome) -> str:
        """The same in a sentence; asked after `told`."""
        verdicts, words = self._told
        if outcome not in words:
            words[outcome] = explain.blocked(outcome, self.shape, verdicts)
        return words[outcome]
