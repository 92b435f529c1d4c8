"""One worker's machine: processes, the supervisor that owns them, its disk.

The supervisor is simulated by its protocol: start is idempotent, the end of a task comes with the
last byte of its log and only once nothing of its tree is left, and a new supervisor knows from
its journal and birth files what an old one had. `Physics` sees every process of the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpulayer.control_plane.settings import Settings
from gpulayer.runtime import exits, segments
from gpulayer.worker.events import Attached
from gpulayer.worker.steps.running import RUN_SECONDS
from tests.simulation.engine import Engine, EngineClock, Share, Timer

LEASE_SECONDS = Settings().lease_seconds

LOCAL = 0.0005
"""Seconds of one way over a local socket. Constant, so order is kept."""

DYING = 0.05
"""How long processes outlive the supervisor that is killed above them."""

WAKING = 1.0 + 2 * 0.5
"""How long what a machine ran when it was suspended may run on after it, at most: its supervisor
looks at its leases every second, and a process may take a moment to die."""

JOIN_SECONDS = 60.0
"""How long a node waits for the others of its gang."""


@dataclass(frozen=True, slots=True)
class Process:
    machine: str
    worker_id: str
    job_id: str
    index: int
    rank: int
    gang: int | None
    """Names the attempt of a gang that it is a node of."""
    nodes: int
    task_id: str
    cores: float
    gpus: tuple[str, ...]
    again: bool
    """Whether it would be given out again, were it lost."""
    born: float


class Broken(AssertionError):
    """An invariant does not hold."""


class Physics:
    """Every live process of the world."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.cores: dict[str, float] = {}
        """What each machine has."""
        self.alive: dict[str, Process] = {}
        self.sent_away: dict[str, float] = {}
        """Worker -> since when its work is given out again, whatever it still runs: no word of one
        that cannot be reached is waited for. Its leases end what may go again."""
        self._woken: dict[str, float] = {}
        """Machine -> when it was last suspended until."""
        self._waiting: dict[str, Callable[[], None]] = {}
        """Nodes of gangs that are not whole yet: task id -> what begins the work."""
        self.started: set[str] = set()
        """Task ids, of whatever has been born."""
        self.runs: dict[tuple[str, int], int] = {}
        """(job, index) -> how many processes there have been."""

    def born(self, process: Process, work: Callable[[], None]) -> None:
        """`work` begins what it is there for: at once, or for a node once its gang is whole."""
        if process.task_id in self.started:
            raise Broken(f"{process.task_id} was started twice")
        self.started.add(process.task_id)
        for other in self.alive.values():
            is_twin = other.worker_id == process.worker_id and other.machine != process.machine
            if is_twin and other.again and self._is_sure(other):
                raise Broken(f"{process} was started beside its worker's older machine: {other}")
        self.alive[process.task_id] = process
        key = (process.job_id, process.index)
        self.runs[key] = self.runs.get(key, 0) + 1
        self._engine.note(process.machine, f"born {process.task_id} of {process.job_id}")
        self._waiting[process.task_id] = work
        self._begin(process)

    def slept(self, machine: str, seconds: float) -> None:
        """What a machine ran may be given out again while it sleeps. When it goes on, a moment is
        allowed in which it finds that out."""
        self._woken[machine] = max(self._woken.get(machine, 0.0), self._engine.now + seconds)
        self._engine.after(seconds + WAKING + 0.001, self._look)

    def _begin(self, process: Process) -> None:
        """The ranks of a gang begin when all of its nodes are there."""
        gang = [p for p in self.alive.values() if _same_attempt(p, process)]
        if len(gang) == process.nodes:
            for node in gang:
                if (work := self._waiting.pop(node.task_id, None)) is not None:
                    work()
            for node in gang:
                self._fit(node.machine)
            self._look()

    def _works(self) -> list[Process]:
        return [p for p in self.alive.values() if p.task_id not in self._waiting]

    def _look(self) -> None:
        sure = [p for p in self._works() if self._is_sure(p)]
        for n, one in enumerate(sure):
            for other in sure[n + 1 :]:
                same = (one.job_id, one.index) == (other.job_id, other.index)
                if same and (one.rank == other.rank or one.gang != other.gang):
                    raise Broken(f"two live processes for one element: {one} and {other}")

    def _is_sure(self, process: Process) -> bool:
        """Whether it is not one of a machine that has just woken, or sleeps, or was sent away."""
        if process.worker_id in self.sent_away:
            over = self.sent_away[process.worker_id] + LEASE_SECONDS + WAKING
            return process.again and self._engine.now > over
        return self._engine.now > self._woken.get(process.machine, -1.0) + WAKING

    def _fit(self, machine: str) -> None:
        """A node that waits for its gang has begun nothing: its place may be given on."""
        here = [p for p in self._works() if p.machine == machine]
        if sum(process.cores for process in here) > self.cores[machine] + 1e-9:
            raise Broken(f"{machine} runs more than it has cores for: {here}")
        gpus = [gpu for process in here for gpu in process.gpus]
        if len(gpus) != len(set(gpus)):
            raise Broken(f"two processes on {machine} have one GPU: {here}")

    def turns(self, task_id: str, index: int) -> None:
        """A run goes on with that element."""
        process = self.alive[task_id]
        if process.index != index:
            self.alive[task_id] = replace(process, index=index)
            key = (process.job_id, index)
            self.runs[key] = self.runs.get(key, 0) + 1
            self._look()

    def dead(self, task_id: str) -> None:
        self._waiting.pop(task_id, None)
        if self.alive.pop(task_id, None) is not None:
            self._engine.note("physics", f"dead {task_id}")


def _same_attempt(one: Process, other: Process) -> bool:
    if other.gang is None:
        return one.task_id == other.task_id
    return (one.job_id, one.gang) == (other.job_id, other.gang)


@dataclass(slots=True)
class Record:
    """What the supervisor's disk holds of one task."""

    task: Mapping[str, Any]
    log: bytearray = field(default_factory=bytearray)
    started_at: float = 0.0
    exit: dict[str, Any] | None = None
    ends: list[dict[str, Any]] = field(default_factory=list)
    """Of a run: what its loop has written down."""


class Supervisor:
    """One life of it. `crash` ends it; the disk stays."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        share: Share,
        clock: EngineClock,
        physics: Physics,
        disk: dict[str, Record],
        truth: dict[str, bytearray],
        worker_id: str,
    ) -> None:
        self._name = name
        self._worker_id = worker_id
        self._engine = engine
        self._share = share
        self._clock = clock
        self._physics = physics
        self._disk = disk
        self._truth = truth
        self._timers: dict[str, list[Timer]] = {}
        self._joins: dict[str, Timer] = {}
        self._parked: dict[str, tuple[int, Callable[..., None]]] = {}
        self._stubborn: set[str] = set()
        self._leases: list[Timer] = []
        self.alive = True
        self.connection = 0
        """Number of the newest agent's connection; requests of older ones are not heard."""
        for record in disk.values():
            if record.exit is None:  # its keeper has ended the tree before this life began
                record.exit = exits.lost(record.started_at, clock.now(), "the supervisor died")

    def connect(self) -> tuple[int, tuple[Attached, ...]]:
        self.connection += 1
        self._parked.clear()
        listed = tuple(
            Attached(t["task_id"], t["fence"], t["job_id"], t["index"], t["note"])
            for t in (record.task for record in self._disk.values())
        )
        return self.connection, listed

    def start(self, task: Mapping[str, Any], plan: Plan) -> None:
        """Twice-safe by task id."""
        task_id = task["task_id"]
        if task_id in self._disk:
            return
        record = self._disk[task_id] = Record(task, started_at=self._clock.now())
        self._truth[task_id] = record.log
        if plan.stubborn:
            self._stubborn.add(task_id)
        timers = self._timers[task_id] = []
        after = self._share.after
        if task["timeout_seconds"] is not None:
            timers.append(after(task["timeout_seconds"], lambda: self._blame(task_id, "timeout")))
        if task["nodes"] > 1:
            self._joins[task_id] = after(JOIN_SECONDS, lambda: self._end(task_id, 1 << 8, None))
        names = ("job_id", "index", "rank", "gang", "nodes", "task_id", "cores", "gpus")
        facts = [task[name] for name in names]
        again = bool(task["note"]["again"])
        process = Process(self._name, self._worker_id, *facts, again, self._engine.now)
        self._physics.born(process, lambda: self._work(task_id, plan))

    def _work(self, task_id: str, plan: Plan) -> None:
        record = self._disk.get(task_id)
        if not self.alive or record is None or record.exit is not None:
            return
        if task_id in self._joins:
            self._joins.pop(task_id).cancel()
        timers, after = self._timers[task_id], self._share.after
        if record.task["indices"]:
            self._turn(task_id, plan)
            return
        for at, size in plan.prints:
            timers.append(after(at, lambda size=size: self._print(task_id, size)))  # type: ignore[misc]
        timers.append(after(plan.seconds, lambda: self._end(task_id, plan.code << 8, None)))

    def _turn(self, task_id: str, plan: Plan) -> None:
        """The next element of a run, as `runtime.element_loop` does it."""
        record = self._disk[task_id]
        indices, at, began = record.task["indices"], len(record.ends), self._clock.now()
        self._physics.turns(task_id, indices[at])
        wait = self._engine.soon(plan.seconds if plan.each is None else plan.each)

        def over() -> None:
            if plan.breaks_at == at:
                self._end(task_id, 9, None)
                return
            code = int(self._engine.chance(plan.bad))
            how = {} if not code else {"outcome": "failed", "exit_code": 1, "message": "bad"}
            ran = {"started_at": began, "ended_at": self._clock.now()}
            record.ends.append({"index": indices[at], **ran, **how})
            is_late = self._clock.now() - record.started_at >= RUN_SECONDS
            stops = is_late or (code and record.task["ends_with_failure"])
            if stops or len(record.ends) == len(indices):
                self._end(task_id, 0, None)
            else:
                self._turn(task_id, plan)

        self._timers[task_id].append(self._share.after(wait, over))

    def lease(self, until: Mapping[str, float]) -> None:
        """Those end then, whoever is still there to say so; all others run on."""
        for timer in self._leases:
            timer.cancel()
        self._leases = [
            self._share.after(self._clock.until(at), lambda task_id=task_id: self._lapse(task_id))  # type: ignore[misc]
            for task_id, at in until.items()
        ]

    def _lapse(self, task_id: str) -> None:
        self._engine.note(self._name, f"lease of {task_id} is over")
        self._kill(task_id, "worker_lost")

    def exits(self, task_id: str, code: int) -> None:
        """Its process, of its own accord."""
        self._end(task_id, code << 8, None)

    def cancel(self, task_id: str, mode: str, grace: float) -> None:
        if mode == "kill" or task_id not in self._stubborn:
            self._kill(task_id, None)
        else:
            self._kill(task_id, None, grace)

    def _kill(self, task_id: str, reason: str | None, wait: float | None = None) -> None:
        record = self._disk.get(task_id)
        if record is not None and record.exit is None and self.alive:
            dying = self._engine.rng.choice((0.01, 0.01, 1.0))  # some hang in the kernel
            self._timers[task_id].append(
                self._share.after(
                    dying if wait is None else wait,
                    lambda: self._end(task_id, 9, exits.CANCEL, reason),
                )
            )

    def tail(self, task_id: str, offset: int, answered: Callable[..., None]) -> None:
        """Answers (offset, bytes, exit or None); offset -1 where there is no such task."""
        if task_id not in self._disk:
            self._share.after(LOCAL, lambda: answered(-1, b"", None))
            return
        self._parked[task_id] = (offset, answered)
        self._look(task_id)

    def forget(self, task_id: str) -> None:
        record = self._disk.get(task_id)
        if record is not None and record.exit is not None:
            del self._disk[task_id]
            self._parked.pop(task_id, None)

    def crash(self) -> None:
        self.alive = False
        self.lease({})
        for task_id, timers in self._timers.items():
            for timer in timers:
                timer.cancel()
            self._engine.after(DYING, lambda task_id=task_id: self._physics.dead(task_id))  # type: ignore[misc]

    def _print(self, task_id: str, size: int) -> None:
        data = task_id.encode().ljust(size, b".")
        self._disk[task_id].log += segments.encode(1, 0, 0, self._clock.now(), data)
        self._look(task_id)

    def _blame(self, task_id: str, cause: str) -> None:
        self._timers[task_id].append(
            self._share.after(0.01, lambda: self._end(task_id, 15, exits.TIMEOUT))
        )

    def _end(self, task_id: str, status: int, cause: str | None, reason: str | None = None) -> None:
        record = self._disk.get(task_id)
        if not self.alive or record is None or record.exit is not None:
            return
        for timer in self._timers.pop(task_id):
            timer.cancel()
        self._physics.dead(task_id)
        record.exit = exits.ended(
            status,
            cause=cause,
            reason=reason,
            out_of_memory=False,
            started_at=record.started_at,
            ended_at=self._clock.now(),
            usage={},
            leftovers=0,
        )
        self._look(task_id)

    def _look(self, task_id: str) -> None:
        record = self._disk[task_id]
        if task_id not in self._parked:
            return
        offset, answered = self._parked[task_id]
        data = bytes(record.log[offset : offset + (1 << 20)])
        if data or record.exit is not None:
            del self._parked[task_id]
            whole = offset + len(data) >= len(record.log)
            ended = record.exit if whole else None
            self._share.after(LOCAL, lambda: answered(offset, data, ended))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a process will do."""

    seconds: float
    code: int
    prints: tuple[tuple[float, int], ...]
    """(when, how many bytes)"""
    stubborn: bool
    """Ignores everything but SIGKILL."""
    each: float | None = None
    """Of a run of elements: seconds of one. None: `seconds`."""
    bad: float = 0.0
    """How likely it is that one fails."""
    breaks_at: int | None = None
    """All of its processes are killed during that one."""
