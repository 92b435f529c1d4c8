"""The fleet against all checks: which machines pass what, each comparison made once.

For one need of one rule a `Column` holds the answer of every machine, as bits of an integer. Many
shapes share it; a shape is judged by a few ANDs. Equal facts are compared once. What a placement
changes is looked at again when somebody next asks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from gpulayer.contracts.decision import Check, Fit, Hold, Placement, Shape, WorkerView
from gpulayer.contracts.ids import WorkerId
from gpulayer.control_plane.scheduler.checks import RESERVATION, RULES, Rule
from gpulayer.control_plane.scheduler.views import Machine, Standing, machines_of

_ONE = ord("1")
Failing = tuple[tuple[str, Fit], ...]
"""Names and outcomes of the checks that do not pass; empty: all pass."""


class Fleet:
    """All machines of a pass. The only object of the scheduler that changes."""

    def __init__(self, views: Iterable[WorkerView]) -> None:
        self.machines = machines_of(views)
        self.everyone = (1 << len(self.machines)) - 1
        self._changed: list[int] = []
        self._columns: dict[tuple[str, Hashable], Column] = {}
        self._by_id = {m.view.worker_id: m for m in self.machines}
        self._targets: dict[str, int] = {}
        self.held = sum(m.bit for m in self.machines if m.view.hold is not None)
        """Bits of the machines of which something is kept for a job that waits."""
        self.alike: dict[Standing, int] = {}
        """Bits of the machines with each standing, as they are now."""
        for m in self.machines:
            self.alike[m.now] = self.alike.get(m.now, 0) | m.bit
            self._targets[m.view.target] = self._targets.get(m.view.target, 0) | m.bit

    @property
    def version(self) -> int:
        """Grows with every change."""
        return len(self._changed)

    def machine(self, worker_id: WorkerId) -> Machine:
        return self._by_id[worker_id]

    def columns(self, shape: Shape, outlives: bool = False) -> list[Column]:
        """The checks that this shape asks for. `outlives`: it would run when a reservation
        begins."""
        found = []
        for rule in (*RULES, RESERVATION) if outlives and self.held else RULES:
            need = rule.need(shape)
            if need is None or need == ():
                continue
            column = self._columns.get((rule.name, need))
            if column is None:
                column = self._columns[rule.name, need] = Column(rule, need, self.machines)
                column.seen = len(self._changed)
            found.append(column)
        return found

    def passing(self, columns: Iterable[Column]) -> int:
        """Bits of the machines that pass all checks."""
        bits = self.everyone
        for column in columns:
            column.refresh(self.machines, self._changed)
            bits &= column.groups.get((), 0)
        return bits

    def groups(self, columns: Iterable[Column]) -> dict[Failing, int]:
        """Bits of the machines that fail the same checks in the same way."""
        groups: dict[Failing, int] = {(): self.everyone} if self.machines else {}
        for column in columns:
            column.refresh(self.machines, self._changed)
            if column.groups.get((), 0) == self.everyone:
                continue
            split: dict[Failing, int] = {}
            for failing, bits in groups.items():
                for more, others in column.groups.items():
                    if bits & others:
                        split[failing + more] = bits & others
            groups = split
        return groups

    def possible(self, columns: Iterable[Column]) -> int:
        """Bits of the machines that nothing rules out for ever."""
        bits = self.everyone
        for column in columns:
            column.refresh(self.machines, self._changed)
            for failing, members in column.groups.items():
                if any(fit is Fit.NEVER for _, fit in failing):
                    bits &= ~members
        return bits

    def releasable(self, columns: Iterable[Column]) -> int:
        """Bits of the machines that lack nothing but what others of ours hold."""
        bits = self.everyone
        for column in columns:
            column.refresh(self.machines, self._changed)
            able = 0
            for failing, members in column.groups.items():
                if column.rule.changes and all(fit is Fit.BUSY for _, fit in failing):
                    able |= members
            bits &= able | column.groups.get((), 0)
        return bits

    def of_target(self, target: str) -> int:
        """Bits of the machines of one target."""
        return self._targets.get(target, 0)

    def take(self, placement: Placement, until: float | None = None) -> None:
        """Hold what one task was given."""
        machine = self._by_id[placement.worker_id]
        self.alike[machine.now] ^= machine.bit
        machine.take(placement, until)
        self.alike[machine.now] = self.alike.get(machine.now, 0) | machine.bit
        self._changed.append(machine.position)

    def keep(self, hold: Hold) -> None:
        """Reserve."""
        machine = self._by_id[hold.worker_id]
        self.alike[machine.now] ^= machine.bit
        machine.keep(hold)
        self.alike[machine.now] = self.alike.get(machine.now, 0) | machine.bit
        self.held |= machine.bit
        self._changed.append(machine.position)


class Column:
    """One need of one rule against every machine."""

    __slots__ = ("_answers", "_fact_of", "_need", "groups", "rule", "seen")

    def __init__(self, rule: Rule, need: Any, machines: Sequence[Machine]) -> None:
        self.rule = rule
        self._need = need
        self._fact_of = rule.fact
        self._answers: dict[Hashable, tuple[tuple[Check, ...], Failing]] = {}
        self.seen = 0
        """How many changes of the fleet the groups take into account."""
        members: dict[Failing, list[int]] = {}
        row_of: dict[Hashable, list[int]] = {}
        for machine in machines:
            fact = self._fact_of(need, machine)
            row = row_of.get(fact)
            if row is None:
                row = row_of[fact] = members.setdefault(self._judge(fact)[1], [])
            row.append(machine.position)
        self.groups = {failing: _bits(found) for failing, found in members.items()}

    def checks(self, machine: Machine) -> tuple[Check, ...]:
        """The answer for one machine as it is now."""
        fact = self._fact_of(self._need, machine)
        return (self._answers.get(fact) or self._judge(fact))[0]

    def test(self) -> Callable[[Machine], bool]:
        """Whether one machine, as it is now, passes: the hottest question of a pass."""
        fact_of, need, known, judge = self._fact_of, self._need, self._answers.get, self._judge

        def passes(machine: Machine) -> bool:
            fact = fact_of(need, machine)
            return not (known(fact) or judge(fact))[1]

        return passes

    def refresh(self, machines: Sequence[Machine], changed: Sequence[int]) -> None:
        """Bring the groups up to date with the machines that changed since the last time."""
        if self.rule.changes and self.seen < len(changed):
            moved: dict[Failing, int] = {}
            gone = 0
            for position in set(changed[self.seen :]):
                machine = machines[position]
                gone |= machine.bit
                failing = self._answer(machine)[1]
                moved[failing] = moved.get(failing, 0) | machine.bit
            for failing in self.groups:
                self.groups[failing] &= ~gone
            for failing, bits in moved.items():
                self.groups[failing] = self.groups.get(failing, 0) | bits
        self.seen = len(changed)

    def _answer(self, machine: Machine) -> tuple[tuple[Check, ...], Failing]:
        fact = self._fact_of(self._need, machine)
        return self._answers.get(fact) or self._judge(fact)

    def _judge(self, fact: Hashable) -> tuple[tuple[Check, ...], Failing]:
        checks = self.rule.judge(self._need, fact)
        failing = tuple((c.name, c.fit) for c in checks if c.fit is not Fit.YES)
        answer = self._answers[fact] = (checks, failing)
        return answer


def lowest(bits: int) -> int:
    """The place of the lowest set bit; there is one."""
    return (bits & -bits).bit_length() - 1


def positions(bits: int) -> Iterator[int]:
    """The places of the set bits, lowest first."""
    digits = f"{bits:b}"[::-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)


def _bits(places: Sequence[int]) -> int:
    """The opposite of `positions`."""
    digits = bytearray(b"0" * (places[-1] + 1))
    for place in places:
        digits[~place] = _ONE
    return int(digits, 2)
