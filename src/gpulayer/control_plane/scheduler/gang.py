"""The workers that fit one shape, best first, taken for all tasks of a job or for none.

All nodes of a gang go to workers of one target, each to one of its own where there are enough; the
targets are tried in their order.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

from gpulayer.contracts.decision import Placement, Shape
from gpulayer.control_plane.scheduler import devices, ranking, topology
from gpulayer.control_plane.scheduler.columns import Column, Fleet, positions
from gpulayer.control_plane.scheduler.topology import Choice
from gpulayer.control_plane.scheduler.views import ALL, Layout, Machine, micro

_Entry = tuple[ranking.Rank, int]
"""(rank, version of the machine that it was worked out for)."""
_NO_DEVICES = Choice((0, 0), 0)


class Candidates:
    """Free capacity only shrinks while a pass runs, so a worker that drops out never comes back."""

    def __init__(self, fleet: Fleet, shape: Shape, columns: list[Column]) -> None:
        self._machines = fleet.machines
        self._shape = shape
        self._tests = [column.test() for column in columns if column.rule.changes]
        self._need = devices.need_of(shape)
        self._usable: dict[tuple[Layout | None, int], int] = {}
        self._choices: dict[tuple[Layout, int], Choice] = {}
        self._heaps: dict[str, list[_Entry]] = {target: [] for target in shape.targets}
        for position in positions(fleet.passing(columns)):
            machine = self._machines[position]
            self._heaps[machine.view.target].append(self._entry(machine))
        for heap in self._heaps.values():
            heapify(heap)

    def pick(self) -> tuple[Placement, ...]:
        """The placements of one job, to be taken at once; empty when it cannot be placed now."""
        for heap in self._heaps.values():
            placed = self._gang(heap) if self._shape.nodes > 1 else self._single(heap)
            if placed:
                return placed
        return ()

    def _single(self, heap: list[_Entry]) -> tuple[Placement, ...]:
        """The worker stays where it is: what it gives makes its entry one to look at again."""
        machine = self._best(heap)
        return () if machine is None else self._on(machine, 1, 0)

    def _gang(self, heap: list[_Entry]) -> tuple[Placement, ...]:
        found: list[tuple[Machine, _Entry]] = []
        while len(found) < self._shape.nodes:
            machine = self._best(heap)
            if machine is None:
                break
            found.append((machine, heappop(heap)))
        for _, entry in found:
            heappush(heap, entry)
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
        return self._times(machine, machine.free_cores, machine.free_memory, machine.free_gpus)

    def most(self, machine: Machine) -> int:
        """The same if nobody else were there. What is not known yet limits nothing."""
        return self._times(machine, machine.cores, machine.memory, ALL)

    def _best(self, heap: list[_Entry]) -> Machine | None:
        """The first worker, still in its place. One that has changed is put where it belongs now,
        or dropped when it no longer fits."""
        while heap:
            rank, version = heap[0]
            machine = self._machines[rank[-1]]
            if version == machine.version:
                return machine
            if self._still_fits(machine):
                heapreplace(heap, self._entry(machine))
            else:
                heappop(heap)
        return None

    def _still_fits(self, machine: Machine) -> bool:
        for passes in self._tests:  # noqa: SIM110  all() costs twice that
            if not passes(machine):
                return False
        return True

    def _entry(self, machine: Machine) -> _Entry:
        if self._need is None:
            return ranking.rank(self._shape, machine, _NO_DEVICES, 0), machine.version
        usable = self._free_devices(machine)
        choice = self._choice(machine, usable)
        return ranking.rank(self._shape, machine, choice, usable), machine.version

    def _on(self, machine: Machine, count: int, rank: int) -> tuple[Placement, ...]:
        """The next `count` nodes on one machine, with devices of their own."""
        left, placed = self._free_devices(machine), list[Placement]()
        for more in range(count):
            bits = self._choice(machine, left).bits
            left &= ~bits
            placed.append(
                Placement(
                    worker_id=machine.view.worker_id,
                    rank=rank + more,
                    cpu_cores=self._shape.cpu_cores,
                    memory_gb=self._shape.memory_gb or 0.0,
                    gpus=tuple(machine.uuids[i] for i in positions(bits)),
                )
            )
        return tuple(placed)

    def _times(self, machine: Machine, cores: int, memory: int | None, gpus: int) -> int:
        """How often the shape fits into these amounts."""
        fits = [max(0, cores) // max(1, micro(self._shape.cpu_cores))]
        if self._shape.memory_gb and memory is not None:
            fits.append(max(0, memory) // max(1, micro(self._shape.memory_gb)))
        if self._need is not None and machine.caps.gpus is not None:
            fits.append((self._fit_devices(machine) & gpus).bit_count() // self._need.gpus)
        return min(fits)

    def _free_devices(self, machine: Machine) -> int:
        return 0 if self._need is None else self._fit_devices(machine) & machine.free_gpus

    def _fit_devices(self, machine: Machine) -> int:
        assert self._need is not None
        fact = devices.fact_of(self._need, machine)
        usable = self._usable.get((fact.layout, fact.shown))
        if usable is None:
            usable = devices.funnel(self._need, fact).usable
            self._usable[fact.layout, fact.shown] = usable
        return usable

    def _choice(self, machine: Machine, usable: int) -> Choice:
        if self._need is None or machine.gpu_fact.layout is None:
            return _NO_DEVICES
        choice = self._choices.get((machine.gpu_fact.layout, usable))
        if choice is None:
            choice = topology.choose(machine.gpu_fact.layout, usable, self._need.gpus)
            self._choices[machine.gpu_fact.layout, usable] = choice
        return choice
