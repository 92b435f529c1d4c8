"""The workers that fit one shape, best first, taken for all tasks of a job or for none.

All nodes of a gang go to workers of one target, each to one of its own where there are enough; the
targets are tried in their order.
"""

from __future__ import annotations

from heapq import heappop, heappush

from gpulayer.contracts.decision import Placement, Shape
from gpulayer.control_plane.scheduler import devices, ranking, topology
from gpulayer.control_plane.scheduler.columns import Column, Fleet, lowest, positions
from gpulayer.control_plane.scheduler.ranking import NOWHERE, Rank
from gpulayer.control_plane.scheduler.topology import Choice
from gpulayer.control_plane.scheduler.views import ALL, Layout, Machine, Standing, micro

_NO_DEVICES = Choice((0, 0), 0)


class Candidates:
    """Free capacity only shrinks while a pass runs, so a worker that drops out never comes back."""

    def __init__(
        self, fleet: Fleet, shape: Shape, columns: list[Column], outlives: bool = False
    ) -> None:
        """`outlives`: it would run when a reservation begins, so has only what that leaves."""
        self._fleet = fleet
        self._machines = fleet.machines
        self._shape = shape
        self._outlives = outlives
        self._tests = [column.test() for column in columns if column.rule.changes]
        self._need = devices.need_of(shape)
        self._usable: dict[tuple[Layout | None, int], int] = {}
        self._choices: dict[tuple[Layout, int], Choice] = {}
        self._names_devices = self._need is not None and self._need.visible is not None
        self._ranks: dict[Standing, Rank] = {}
        self._lines: dict[str, _Line] = {target: _Line() for target in shape.targets}
        left = fleet.passing(columns)
        while left:
            machine = self._machines[lowest(left)]
            alike = left & self._alike(machine)
            left ^= alike
            rank = self._rank(machine)
            if rank is not NOWHERE:
                for target, line in self._lines.items():
                    line.add(alike & fleet.of_target(target), rank)

    def pick(self) -> tuple[Placement, ...]:
        """The placements of one job, to be taken at once; empty when it cannot be placed now."""
        for line in self._lines.values():
            placed = self._gang(line) if self._shape.nodes > 1 else self._single(line)
            if placed:
                return placed
        return ()

    def _single(self, line: _Line) -> tuple[Placement, ...]:
        """The worker stays where it is: what it gives makes it one to look at again."""
        machine = self._best(line)
        if machine is None:
            return ()
        bits = self._choice(machine, self._free_devices(machine)).bits
        return (self._placement(machine, bits, 0),)

    def _gang(self, line: _Line) -> tuple[Placement, ...]:
        found: list[tuple[Machine, Rank]] = []
        while len(found) < self._shape.nodes:
            machine = self._best(line)
            if machine is None:
                break
            found.append((machine, line.leave()))
        for machine, rank in found:
            line.add(machine.bit, rank)
        if len(found) == self._shape.nodes:
            return tuple(self._on(machine, 1, rank)[0] for rank, (machine, _) in enumerate(found))
        return () if self._shape.distinct else self._shared([machine for machine, _ in found])

    def _shared(self, found: list[Machine]) -> tuple[Placement, ...]:
        """Each machine takes as many nodes as it has room for, the best one first."""
        placed: tuple[Placement, ...] = ()
        for machine in found:
            wanted = min(self.room(machine), self._shape.nodes - len(placed))
            placed += self._on(machine, wanted, len(placed))
        return placed if len(placed) == self._shape.nodes else ()

    def room(self, machine: Machine) -> int:
        """How many nodes of the shape a machine that passes has room for now."""
        now, gpus = machine.now.amounts, self._open_devices(machine)
        cores, memory, kept = now.free_cores, now.free_memory, now.kept
        if kept is not None and self._outlives:
            cores, memory = min(cores, kept.cores), min(memory, kept.memory)
        return self.times(machine, cores, memory, gpus)

    def most(self, machine: Machine) -> int:
        """The same if nobody else were there. What is not known yet limits nothing."""
        return self.times(machine, machine.now.amounts.cores, machine.now.amounts.memory, ALL)

    def _best(self, line: _Line) -> Machine | None:
        """The first worker, still in its place. One that has changed is put where it belongs now,
        or dropped when it no longer fits, and with it all that stand like it."""
        while line.order:
            order = line.order[0]
            bits = line.bits[order]
            while bits:
                machine = self._machines[(bits & -bits).bit_length() - 1]
                rank = self._ranks.get(machine.now) or self._rank(machine)
                if rank == order:
                    line.bits[order] = bits
                    return machine
                alike = bits & self._alike(machine)
                bits ^= alike
                if rank is not NOWHERE:
                    line.add(alike, rank)
            del line.bits[heappop(line.order)]
        return None

    def _alike(self, machine: Machine) -> int:
        """Bits of the machines that are what this one is to the shape, as they are now."""
        return machine.bit if self._names_devices else self._fleet.alike[machine.now]

    def _rank(self, machine: Machine) -> Rank:
        """Where it belongs as it is now."""
        rank = self._ranked(machine)
        if not self._names_devices:
            self._ranks[machine.now] = rank
        return rank

    def _ranked(self, machine: Machine) -> Rank:
        for passes in self._tests:
            if not passes(machine):
                return NOWHERE
        usable = self._free_devices(machine)
        choice = self._choice(machine, usable)
        return ranking.rank(self._shape, machine.now, choice, usable)

    def _on(self, machine: Machine, count: int, rank: int) -> tuple[Placement, ...]:
        """The next `count` nodes on one machine, with devices of their own."""
        left, placed = self._free_devices(machine), list[Placement]()
        for more in range(count):
            bits = self._choice(machine, left).bits
            left &= ~bits
            placed.append(self._placement(machine, bits, rank + more))
        return tuple(placed)

    def _placement(self, machine: Machine, bits: int, rank: int) -> Placement:
        gpus = tuple([machine.uuids[i] for i in positions(bits)]) if bits else ()
        shape = self._shape
        return Placement(
            machine.view.worker_id, rank, shape.cpu_cores, shape.memory_gb or 0.0, gpus
        )

    def times(self, machine: Machine, cores: int, memory: int | None, gpus: int) -> int:
        """How often the shape fits into these amounts."""
        fits = [max(0, cores) // max(1, micro(self._shape.cpu_cores))]
        if self._shape.memory_gb and memory is not None:
            fits.append(max(0, memory) // max(1, micro(self._shape.memory_gb)))
        if self._need is not None and machine.caps.gpus is not None:
            fits.append((self.fit_devices(machine) & gpus).bit_count() // self._need.gpus)
        return min(fits)

    def _free_devices(self, machine: Machine) -> int:
        return 0 if self._need is None else self.fit_devices(machine) & self._open_devices(machine)

    def _open_devices(self, machine: Machine) -> int:
        free, kept = machine.now.gpu_fact.free, machine.now.amounts.kept
        return free & kept.gpus if kept is not None and self._outlives else free

    def fit_devices(self, machine: Machine) -> int:
        """Bits of the devices that would do, whoever holds them now."""
        if self._need is None:
            return 0
        fact = devices.fact_of(self._need, machine)
        usable = self._usable.get((fact.layout, fact.shown))
        if usable is None:
            usable = devices.funnel(self._need, fact).usable
            self._usable[fact.layout, fact.shown] = usable
        return usable

    def _choice(self, machine: Machine, usable: int) -> Choice:
        layout = machine.now.gpu_fact.layout
        if self._need is None or layout is None:
            return _NO_DEVICES
        choice = self._choices.get((layout, usable))
        if choice is None:
            choice = topology.choose(layout, usable, self._need.gpus)
            self._choices[layout, usable] = choice
        return choice


class _Line:
    """Workers in the order in which they are to be given jobs: by rank, then by position. Each is
    where it belonged when it was last looked at, which is never too far back."""

    __slots__ = ("bits", "order")

    def __init__(self) -> None:
        self.bits: dict[Rank, int] = {}
        """Of the workers with each rank; may be none."""
        self.order: list[Rank] = []
        """A heap of those ranks."""

    def add(self, bits: int, rank: Rank) -> None:
        there = self.bits.get(rank)
        if there is None:
            heappush(self.order, rank)
            there = 0
        self.bits[rank] = there | bits

    def leave(self) -> Rank:
        """Take out the very first one. Its rank."""
        rank = self.order[0]
        self.bits[rank] &= self.bits[rank] - 1
        return rank
