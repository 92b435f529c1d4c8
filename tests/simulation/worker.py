"""The real agent on a simulated machine: carries its instructions out in virtual time."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from gpulayer.contracts import runs
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.messages import Acquired, Exit, Message, Registered, ReportReply
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.errors import GPULayerError
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.agent import Agent
from gpulayer.worker.slot import note_of
from gpulayer.worker.steps import ending
from tests.simulation.drawn import draw_capabilities, draw_plan
from tests.simulation.engine import Engine, EngineClock, EngineIds, Share, Timer
from tests.simulation.machine import LOCAL, Broken, Physics, Plan, Record, Supervisor
from tests.simulation.network import Link, Network
from tests.simulation.plane import PlaneHost
from tests.simulation.saving import Saver

ANSWER_SECONDS = 20.0
"""As `api.wire` waits for an answer."""

OVER = ("unauthorized", "worker-replaced")
"""Refusals after which `api.session_channel` has a machine leave."""

_ANSWERS: dict[type, type[Message]] = {
    say.SendRegister: Registered,
    say.SendReport: ReportReply,
    say.SendAcquire: Acquired,
}


class Worker:
    """A machine with its supervisor and one life of the agent after another."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        network: Network,
        plane: PlaneHost,
        physics: Physics,
        make_agent: Callable[..., Agent] = Agent,
        plan: Callable[[Engine], Plan] = draw_plan,
        capabilities: WorkerCapabilities | None = None,
        worker_id: str | None = None,
        draw: Callable[[Engine, str], WorkerCapabilities] = draw_capabilities,
    ) -> None:
        """`plan` says what each process will do; by default that is drawn, and what it has.
        `worker_id`: of another machine, whose disk was copied to this one."""
        self.name = name
        self.worker_id = worker_id or name
        self.staging_seconds: float | None = None
        """How long the preparation of a task takes; None: drawn each time."""
        self.is_gone = False
        """It was sent away for good."""
        self._engine = engine
        self._network = network
        self._plane = plane
        self._physics = physics
        self._make_agent = make_agent
        self.plan = plan
        self._ids = EngineIds(engine)
        self.link: Link = network.link()
        self.machine = Share(engine)
        self._share = Share(engine, self.machine)
        """The agent's."""
        self.clock = EngineClock(engine, rate=engine.rng.uniform(0.97, 1.03), base=500.0)
        self.capabilities = capabilities or draw(engine, name)
        physics.cores[name] = self.capabilities.cpu_cores
        self.truth: dict[str, bytearray] = {}
        """What each task printed, whoever still knows it."""
        self.disk: dict[str, Record] = {}
        self._saver = Saver(
            self.worker_id, engine, self.clock, network, self.link, plane, self.disk
        )
        self._remembered = float("-inf")
        self.agent: Agent | None = None
        self.supervisor: Supervisor | None = None
        self._life = 0
        self._connection = 0
        self._tick: Timer | None = None
        self.start_supervisor()
        self.start_agent()

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: a laptop that is shut, a virtual machine that is paused."""
        self._engine.note(self.name, f"sleeps for {seconds:.3f} s")
        self.machine.suspend(seconds)
        self._physics.slept(self.name, seconds)

    def stop_agent(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        self._engine.note(self.name, f"agent is stopped for {seconds:.3f} s")
        self._share.suspend(seconds)

    # --- lives ------------------------------------------------------------------------------

    def start_agent(self) -> None:
        if self.is_gone:
            return
        self._life += 1
        self._engine.note(self.name, f"agent {self._life} starts")
        self.agent = self._make_agent(
            self.worker_id,
            self.worker_id,
            self._ids.token(8),
            "local",
            self.capabilities.to_json(),
            self._remembered,
            self.name,
        )
        if self.supervisor is not None:
            self._connect()

    def crash_agent(self) -> None:
        if self.agent is not None:
            self._engine.note(self.name, "agent dies")
            self.agent = None
            self._life += 1
            for end in tuple(self.link.open_calls):
                self.link.open_calls.pop(end)
            self._share = Share(self._engine, self.machine)
            self.machine.after(self._engine.rng.uniform(0.1, 3.0), self.start_agent)

    def leave(self) -> None:
        """The plane does not want it any more: what it runs ends with it, and nobody begins it
        again."""
        self.is_gone = True
        self.crash_agent()
        self.crash_supervisor()

    def start_supervisor(self) -> None:
        if self.is_gone:
            return
        self._engine.note(self.name, "supervisor starts")
        self.supervisor = Supervisor(
            self.name,
            self._engine,
            self.machine,
            self.clock,
            self._physics,
            self.disk,
            self.truth,
            self.worker_id,
        )
        if self.agent is not None:
            self._connect()

    def crash_supervisor(self) -> None:
        if self.supervisor is not None:
            self._engine.note(self.name, "supervisor dies")
            self.supervisor.crash()
            self.supervisor = None
            self._share.after(LOCAL, self._mine(lambda: self.tell(heard.SupervisorLost())))
            self.machine.after(self._engine.rng.uniform(0.1, 1.0), self.start_supervisor)

    def _connect(self) -> None:
        assert self.supervisor is not None
        self._connection, listed = self.supervisor.connect()
        self._share.after(LOCAL, self._mine(lambda: self.tell(heard.SupervisorListed(listed))))

    # --- events and instructions ------------------------------------------------------------

    def tell(self, event: heard.Event) -> None:
        if self.agent is None:
            return
        if self._share.sleeps:
            self._share.after(0.0, self._mine(lambda: self.tell(event)))
            return
        self._engine.note(self.name, f"hears {_shown(event)}")
        for instruction in self.agent.handle(event, self.clock.boottime()):
            if not isinstance(instruction, say.Tail | say.Remember):
                self._engine.note(self.name, f"says {_shown(instruction)}")
            self._carry_out(instruction)
        if self._tick is not None:
            self._tick.cancel()
        wait = self.clock.until(self.agent.deadline())
        if wait != float("inf"):
            tick = self._mine(lambda: self.tell(heard.Tick()))
            self._tick = self._share.after(max(wait, 1e-6), tick)

    def _mine(self, call: Callable[[], None]) -> Callable[[], None]:
        """The call, unless this life of the agent is over by then."""
        life = self._life

        def checked() -> None:
            if life == self._life:
                call()

        return checked

    def _carry_out(self, order: say.Instruction) -> None:
        match order:
            case say.SendRegister(session) | say.SendReport(session) | say.SendAcquire(session):
                park = order.message.park_seconds if isinstance(order, say.SendAcquire) else 0.0
                self._call(session, self._plane.talk(self._wired(order)), order, park)
            case say.Ship(session, task_id, fence, _, offset, data):
                self._call(
                    session,
                    self._plane.ship(self.worker_id, task_id, fence, offset, data),
                    order,
                    0.0,
                )
            case say.Remember(at):
                self._remembered = at
            case say.Run(assignment, number):
                mean = self._engine.rng.choice((0.002, 0.002, 0.3, 3.0))
                begin, drawn = self._run(assignment, number), self._engine.soon(mean)
                wait = drawn if self.staging_seconds is None else self.staging_seconds
                self._share.after(wait, self._mine(begin))
            case say.Tail(task_id, offset):
                self._ask(lambda supervisor: supervisor.tail(task_id, offset, self._read(task_id)))
            case say.End(task_id, mode, grace):
                self._ask(lambda supervisor: supervisor.cancel(task_id, mode, grace))
            case say.Forget(task_id):
                self._ask(lambda supervisor: supervisor.forget(task_id))
            case say.Collect(task_id, _, raw, _):
                ends = tuple(self.disk[task_id].ends) if task_id in self.disk else ()
                end = dataclasses.replace(ending.of_process(raw), elements=ends)
                collected = heard.TaskCollected(task_id, end)
                self._share.after(
                    self._engine.soon(0.005), self._mine(lambda: self.tell(collected))
                )
            case say.LookAtRun(task_id, _):
                ends = self.disk[task_id].ends if task_id in self.disk else []
                if done := tuple(end for end in ends if "outcome" not in end):
                    look = heard.ElementsDone(task_id, done)
                    self._share.after(self._engine.soon(0.005), self._mine(lambda: self.tell(look)))
            case say.KeepCheckpoints(task_id, fence):
                self._saver.begin(task_id, fence, self._share, self._mine)
            case say.StartPlane():
                self._plane.wanted()
            case say.Lease(until):
                self._ask(lambda supervisor: supervisor.lease(until))
            case (
                say.DropEnvelopes()
                | say.KeepEnvelopes()
                | say.Leave()
                | say.Probe()
                | say.DoErrand()
            ):
                pass

    def crash(self) -> None:
        """The machine, with all that runs on it."""
        self.crash_agent()
        self.crash_supervisor()

    def _run(self, assignment: Any, number: int) -> Callable[[], None]:
        """The start, once prepared, over the connection that there is now."""
        task_id, gang = assignment.task_id, assignment.gang
        place = {"address": self.name, "port": assignment.fence} if gang else None
        if gang and assignment.rank and (met := gang["rendezvous"]) and met["port"] != gang["id"]:
            raise Broken(f"{task_id} was sent to where another attempt met: {gang}")
        task = {
            "task_id": task_id,
            "fence": assignment.fence,
            "job_id": assignment.job_id,
            "index": assignment.index,
            "rank": assignment.rank,
            "gang": gang["id"] if gang else None,
            "nodes": len(gang["nodes"]) if gang else 1,
            "note": note_of(assignment) | ({"rendezvous": place} if place else {}),
            "timeout_seconds": None if assignment.run else assignment.timeout_seconds,
            "indices": [index for index, _ in runs.specs(assignment.run)] if assignment.run else [],
            "ends_with_failure": bool((assignment.run or {}).get("ends_with_failure")),
            "cores": float(assignment.spec["resources"]["cpu_cores"]),
            "gpus": tuple(assignment.gpus),
        }
        plan, ask = self.plan(self._engine), self._asker()

        def start(supervisor: Supervisor, until: float) -> None:
            if self.clock.boottime() >= until:
                self._share.after(LOCAL, self._mine(too_late))
                return
            supervisor.start(task, plan)
            supervisor.tail(task_id, 0, self._read(task_id))
            where = place if assignment.rank == 0 else None
            started = heard.TaskStarted(task_id, number, self.clock.now(), where)
            self._share.after(LOCAL, self._mine(lambda: self.tell(started)))

        def too_late() -> None:
            self.tell(heard.Tick())
            self.tell(heard.TaskRefused(task_id, number, Exit("failed", "preparation")))

        def begin() -> None:
            assert self.agent is not None
            until = self.agent.starts_by(task_id, number) or 0.0
            if self._engine.chance(self._network.faults.refused_starts):
                refused = Exit(TaskState.FAILED, Reason.NOT_FOUND, "not there", exit_code=127)
                self.tell(heard.TaskRefused(task_id, number, refused))
            else:
                ask(lambda supervisor: start(supervisor, until))

        return begin

    def _ask(self, request: Callable[[Supervisor], None]) -> None:
        self._asker()(request)

    def _asker(self) -> Callable[[Callable[[Supervisor], None]], None]:
        """A way to ask over the connection of this moment: not heard by a supervisor that has
        died meanwhile, nor by one that a newer agent has spoken to."""
        connection, supervisor = self._connection, self.supervisor

        def ask(request: Callable[[Supervisor], None]) -> None:
            def arrive() -> None:
                if supervisor is None or supervisor is not self.supervisor:
                    return
                if supervisor.connection == connection:
                    request(supervisor)

            self.machine.after(LOCAL, arrive)

        return ask

    def _read(self, task_id: str) -> Callable[..., None]:
        life, connection, supervisor = self._life, self._connection, self.supervisor

        def answered(offset: int, data: bytes, raw: Any) -> None:
            here = (self._life, self._connection, self.supervisor)
            if here == (life, connection, supervisor):
                known = offset >= 0
                read = heard.LogRead(task_id, offset, data, raw)
                self.tell(read if known else heard.LogGone(task_id))

        return answered

    def _call(self, session: int, execute: Any, order: Any, park: float) -> None:
        life = self._life

        def answered(value: Any) -> None:
            self._mine_now(life, lambda: self._answered(order, value))

        def failed() -> None:
            self._mine_now(life, lambda: self.tell(heard.CallFailed(session)))

        self._network.call(self.link, execute, answered, failed, ANSWER_SECONDS + park)

    def _mine_now(self, life: int, call: Callable[[], None]) -> None:
        if life == self._life:
            call()

    def _answered(self, order: Any, value: Any) -> None:
        if isinstance(value, GPULayerError) and value.code in OVER:
            self.leave()
            return
        if isinstance(value, Exception):
            self.tell(heard.CallFailed(order.session))
            return
        if type(order) in _ANSWERS and self._network.faults.through_json:
            value = _ANSWERS[type(order)].from_json(json.loads(json.dumps(value.to_json())))
        match order:
            case say.SendRegister(session):
                self.tell(heard.RegisterAnswered(session, value))
            case say.SendReport(session):
                self.tell(heard.ReportAnswered(session, value))
            case say.SendAcquire(session, number):
                self.tell(heard.AcquireAnswered(session, number, value))
            case say.Ship(session, task_id, _, number):
                self.tell(heard.LogShipped(session, task_id, number, value))

    def _wired(self, order: Any) -> Any:
        if not self._network.faults.through_json:
            return order.message
        return type(order.message).from_json(json.loads(json.dumps(order.message.to_json())))


def _shown(thing: Any) -> str:
    """A short, stable form for the trace."""
    name = type(thing).__name__
    parts = [str(getattr(thing, key)) for key in ("task_id", "number") if hasattr(thing, key)]
    if (message := getattr(thing, "message", None)) is not None and hasattr(message, "tasks"):
        parts += [
            f"{news.task_id}:{news.exit.outcome if news.exit else news.phase}"
            for news in message.tasks
        ]
    if (reply := getattr(thing, "reply", None)) is not None:
        for key in ("recorded", "kill", "forget"):
            if getattr(reply, key, ()):
                parts.append(f"{key}={','.join(getattr(reply, key))}")
        for key in ("assignments", "cancel"):
            if getattr(reply, key, ()):
                parts.append(f"{key}={','.join(one.task_id for one in getattr(reply, key))}")
    return " ".join([name, *parts])
