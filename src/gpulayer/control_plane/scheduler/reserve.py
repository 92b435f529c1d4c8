"""Reservations: when the first job that must wait can begin, and what is kept for it until then.

The shadow of the running jobs says when: each gives back what it holds when its limit ends it, at
the latest. On the machines where the job can begin first, a later job may have what it gives back
before that, or what is left beside (EASY backfill: Lifka, 1995; Mu'alem and Feitelson, 2001).

A running job without a limit gives back nothing that could be counted on. Where too few have one,
nobody knows when the job can begin. It is passed by for a while, `PATIENCE`, since that costs
nobody anything; then what becomes free on the machines that lack least is kept for it until it is
enough. So nothing starves, and without limits nothing stands idle for long at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from typing import NamedTuple

from gpulayer.contracts.decision import Hold, Shape
from gpulayer.contracts.ids import JobId
from gpulayer.control_plane.scheduler import topology
from gpulayer.control_plane.scheduler.columns import Fleet, positions
from gpulayer.control_plane.scheduler.gang import Candidates
from gpulayer.control_plane.scheduler.views import Machine, micro

PATIENCE = 600.0
"""Seconds for which a job that nobody can say a time for is passed by."""


class Start(NamedTuple):
    """The earliest start that limits promise."""

    at: float
    nodes: tuple[tuple[int, int], ...]
    """Position of each machine, and nodes there."""


def earliest(
    fleet: Fleet, shape: Shape, candidates: Candidates, able: int, now: float
) -> Start | None:
    """None: limits do not say. `able`: bits of the machines that lack nothing but room."""
    starts = [
        _on_target(fleet, shape, candidates, able & fleet.of_target(target), now)
        for target in shape.targets
    ]
    return min((start for start in starts if start is not None), key=lambda s: s.at, default=None)


def holds(
    fleet: Fleet, shape: Shape, candidates: Candidates, job_id: JobId, start: Start
) -> tuple[Hold, ...]:
    """What is kept for a job that will begin then."""
    return tuple(
        _hold(fleet.machines[at], nodes, shape, candidates, job_id, start.at)
        for at, nodes in start.nodes
    )


def gathered(
    fleet: Fleet, shape: Shape, candidates: Candidates, job_id: JobId, able: int
) -> tuple[Hold, ...]:
    """What is kept for a job whose start nobody knows, on the machines that lack least. Empty: they
    would be too few even if nobody else were there."""
    for target in shape.targets:
        bits, left, found = able & fleet.of_target(target), shape.nodes, list[tuple[int, int]]()
        machines = [fleet.machines[at] for at in positions(bits)]
        for machine in sorted(machines, key=lambda m: (-_share(m, shape, candidates), m.position)):
            nodes = min(left, 1 if shape.distinct else candidates.most(machine))
            if nodes:
                found.append((machine.position, nodes))
                left -= nodes
            if not left:
                return tuple(
                    _hold(fleet.machines[at], n, shape, candidates, job_id, None) for at, n in found
                )
    return ()


def _on_target(
    fleet: Fleet, shape: Shape, candidates: Candidates, able: int, now: float
) -> Start | None:
    """Room is added up machine by machine as it comes, until it is enough."""
    most = 1 if shape.nodes == 1 or shape.distinct else shape.nodes
    coming = [_rooms(fleet.machines[at], candidates, most, now) for at in positions(able)]
    there: dict[int, int] = {}
    total = 0
    for at, position, room in merge(*coming, key=itemgetter(0, 1)):
        total += room - there.get(position, 0)
        there[position] = room
        if total >= shape.nodes:
            return Start(at, tuple(_shared_out(there, shape.nodes)))
    return None


def _rooms(
    machine: Machine, candidates: Candidates, most: int, now: float
) -> Iterator[tuple[float, int, int]]:
    """When the machine has room for how many nodes: each time that there is more."""
    free = machine.now.amounts
    cores, memory, gpus = free.free_cores, free.free_memory, free.gpu_fact.free
    room = min(most, candidates.times(machine, cores, memory, gpus))
    if room > 0:
        yield now, machine.position, room
    for release in machine.to_come():
        if room == most:
            return
        cores, memory, gpus = (
            cores + release.cores, memory + release.memory, gpus | release.gpus
        )  # fmt: skip
        more = min(most, candidates.times(machine, cores, memory, gpus))
        if more > room:
            room = more
            yield max(now, release.at), machine.position, room


def _shared_out(there: dict[int, int], nodes: int) -> Iterator[tuple[int, int]]:
    """In the order in which the machines had room."""
    for position, room in there.items():
        if nodes:
            yield position, min(room, nodes)
            nodes -= min(room, nodes)


def _hold(
    machine: Machine,
    nodes: int,
    shape: Shape,
    candidates: Candidates,
    job_id: JobId,
    at: float | None,
) -> Hold:
    free = machine.now.amounts
    cores, memory, gpus = free.free_cores, free.free_memory, free.gpu_fact.free
    for release in machine.to_come() if at is not None else ():
        if at is not None and release.at <= at:
            cores, memory, gpus = (
                cores + release.cores, memory + release.memory, gpus | release.gpus
            )  # fmt: skip
    usable = candidates.fit_devices(machine) & gpus
    wanted = min(nodes * shape.gpus, usable.bit_count())
    if wanted and free.gpu_fact.layout is not None:
        gpus &= ~topology.choose(free.gpu_fact.layout, usable, wanted).bits
    return Hold(
        machine.view.worker_id,
        job_id,
        at,
        max(0, cores - nodes * micro(shape.cpu_cores)) / 1_000_000,
        max(0, memory - nodes * micro(shape.memory_gb or 0.0)) / 1_000_000,
        tuple(machine.uuids[i] for i in positions(gpus)),
    )


def _share(machine: Machine, shape: Shape, candidates: Candidates) -> float:
    """Of what one node needs, the share that is free there: of whatever is scarcest."""
    free = machine.now.amounts
    shares = [free.free_cores / max(1, micro(shape.cpu_cores))]
    if shape.memory_gb:
        shares.append(free.free_memory / max(1, micro(shape.memory_gb)))
    if shape.gpus:
        usable = candidates.fit_devices(machine) & free.gpu_fact.free
        shares.append(usable.bit_count() / shape.gpus)
    return min(1.0, *shares)
