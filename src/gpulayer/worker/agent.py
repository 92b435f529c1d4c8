"""The worker's mind: one state machine, no I/O, no clock, no thread.

`handle(event, now)` takes one fact and answers what is to be done; `now` is seconds on the clock
that counts suspension (CLOCK_BOOTTIME), because leases are timed on it. The driver runs it on
threads and real sockets, the simulator on a virtual clock.

    session   the talk with the plane      slots     the tasks and their moves
    news      what a report says           log_tail  how one task's log travels
    refusals  news that the plane will not take

Every fact that no answer confirmed is sent again; every order may come twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.messages import Acquired, Assignment, Cancel, Registered, ReportReply
from gpulayer.worker import events as heard, instructions as say, news
from gpulayer.worker.refusals import Refusals
from gpulayer.worker.session import Session
from gpulayer.worker.slot import Slot, attached, keeping
from gpulayer.worker.slots import Slots

REMEMBER_SECONDS = 1.0
"""How old what is remembered may be: the next agent then ends its tasks that much too early."""


class Agent:
    """Not for two threads at once."""

    def __init__(
        self,
        worker_id: str,
        name: str,
        nonce: str,
        target: str,
        capabilities: Mapping[str, Any],
        last_heard: float = float("-inf"),
        place: str = "",
    ) -> None:
        """`last_heard`: what an earlier agent of this worker was last asked to `Remember`."""
        self.slots = Slots()
        self._last_heard = last_heard
        self._remembered = float("-inf")
        self._session = Session(worker_id, name, nonce, target, place)
        self._capabilities = capabilities
        self._capabilities_told = True
        self._refusals = Refusals()
        self._has_leases = False  # the supervisor was told of some
        self._listed = False
        """A supervisor has said once what it has, so the inventory is whole."""
        self._supervised = False
        self._leaving = False
        self._done: dict[str, float] = {}
        """Task ids that are over, and since when: a late assignment must not run them again."""

    def starts_by(self, task_id: str, run: int) -> float | None:
        """Until when that run of the task may be started; None: it is not wanted any more."""
        slot = self.slots.get(task_id)
        is_wanted = slot is not None and slot.run == run and slot.phase == "staging"
        return self._lapses_at(slot) if slot is not None and is_wanted and not slot.order else None

    def handle(self, event: heard.Event, now: float) -> list[say.Instruction]:
        """Take one fact. The instructions are in the order in which they must begin."""
        return self._take(event, now) + self._next(now)

    def deadline(self) -> float:
        """When a `Tick` is due at the latest, on the clock of `handle`."""
        if not self._listed:
            return float("inf")
        session = self._session
        times = [session.begins_at, session.gives_up_at, self.slots.looks_at()]
        if session.registered:
            times += [slot.log.due for slot in self.slots.all if slot.log.waits]
            if session.report is None:
                times.append(self._report_due())
        times += [self._lapses_at(slot) for slot in self.slots.all if slot.may_lapse]
        return min(times)

    # --- what is heard ----------------------------------------------------------------------

    def _take(self, event: heard.Event, now: float) -> list[say.Instruction]:
        current = self._session.number
        match event:
            case heard.SupervisorListed(tasks):
                return self._on_listed(tasks, now)
            case heard.SupervisorLost():
                self._supervised = False
                for slot in self.slots.all:
                    slot.log.tailing = None
            case heard.RegisterAnswered(session, reply) if session == current:
                if self._session.registering:
                    return self._on_registered(reply, now)
            case heard.ReportAnswered(session, answer) if session == current:
                return self._on_report_answer(answer, now)
            case heard.AcquireAnswered(session, number, acquired) if session == current:
                if self._session.asked(number):
                    return self._on_acquired(acquired, now)
            case heard.CallFailed(session) if session == current:
                self._session_over(now)
            case heard.ReportRefused(session, why) if session == current:
                return self._on_refused(why, now)
            case heard.LogShipped(session, task_id, number, size) if session == current:
                if (shipped := self.slots.get(task_id)) is not None:
                    shipped.log.plane_has(number, size)
            case heard.CapabilitiesChanged(capabilities):
                self._capabilities, self._capabilities_told = capabilities, False
            case _ if isinstance(event, heard.OfTask):
                return self._on_task(event, now)
            case _:
                pass
        return []

    def _on_listed(self, tasks: tuple[heard.Attached, ...], now: float) -> list[say.Instruction]:
        out: list[say.Instruction] = []
        self._listed = self._supervised = True
        listed = {task.task_id: task for task in tasks}
        for slot in self.slots.all:
            out += self.slots.found(slot, listed.pop(slot.task_id, None) is not None, now)
        for task in listed.values():
            if task.task_id in self._done:
                out.append(say.Forget(task.task_id))
            else:
                self.slots.add(slot := attached(task, self._last_heard))
                out += keeping(slot)
        return out

    def _on_registered(self, reply: Registered, now: float) -> list[say.Instruction]:
        self._session.begun(reply)
        self._leaving = False
        for slot in self.slots.all:
            slot.authorised_at = max(slot.authorised_at, self._session.register_sent)
        out = self._heard(self._session.register_sent)
        for task_id in reply.forget:
            out += self._recorded(task_id, now)
        keep = say.KeepEnvelopes(tuple(reply.envelopes))
        return [*out, *self._disown(reply.kill), keep]

    def _on_report_answer(self, reply: ReportReply, now: float) -> list[say.Instruction]:
        session = self._session
        report, session.report = session.report, None
        if report is None:
            return []
        if not reply.ok:
            self._session_over(now)
            return []
        session.lease, session.interval = reply.lease_seconds, reply.report_seconds
        for line in report.inventory:
            if (slot := self.slots.get(line.task_id)) is not None:
                slot.authorised_at = max(slot.authorised_at, session.report_sent)
        news.heard(self.slots, report.tasks)
        out = self._heard(session.report_sent)
        for task_id in reply.recorded:
            out += self._recorded(task_id, now)
        self._given(reply.assignments, session.report_sent, now)
        out += self._orders(reply.cancel) + self._disown(reply.kill)
        if reply.drop_envelopes:
            out.append(say.DropEnvelopes(tuple(reply.drop_envelopes)))
        return out

    def _on_refused(self, why: str, now: float) -> list[say.Instruction]:
        report = self._session.report
        lost = self._refusals.heard(self.slots, report.tasks, why) if report is not None else None
        self._session_over(now)
        return [] if lost is None else self._gone(lost, now)

    def _on_acquired(self, reply: Acquired, now: float) -> list[say.Instruction]:
        if not reply.ok:
            self._session_over(now)
            return []
        self._leaving = self._leaving or reply.leave
        self._given((*reply.assignments, *reply.retract), self._session.acquire_sent, now)
        for slot in filter(None, (self.slots.get(one.task_id) for one in reply.retract)):
            self.slots.retract(slot)
        beside = [*map(say.JoinStream, reply.streams), *self._session.errands(reply.errands)]
        probe = (say.Probe(reply.probe),) if reply.probe else ()
        return [*self._orders(reply.cancel), *probe, *beside]

    def _given(self, assignments: tuple[Assignment, ...], sent: float, now: float) -> None:
        sent = min(sent, self._last_heard)  # an acquire alone does not renew a lease
        if now >= sent + self._session.authority:
            return
        for assignment in assignments:
            if assignment.task_id not in self._done:
                self.slots.give(assignment, sent)

    def _on_task(self, event: heard.OfTask, now: float) -> list[say.Instruction]:
        slot = self.slots.get(event.task_id)
        if slot is None:
            return []
        match event:
            case heard.TaskEntered(_, run, phase) if run == slot.run:
                slot.entered = phase
            case heard.TaskStarted() if event.run == slot.run:
                return self.slots.started(slot, event, now)
            case heard.TaskRefused(_, run, ending) if run == slot.run:
                self.slots.refused(slot, ending)
            case heard.LogRead(_, offset, data, raw):
                if slot.log.took(offset, data, now) and raw is not None:
                    return self.slots.tree_ended(slot, raw)
            case heard.LogGone():
                slot.log.size = slot.log.read
            case heard.ElementsDone(_, done):
                slot.done = done
            case heard.TaskCollected(_, ending):
                self.slots.collected(slot, ending)
            case _:
                pass
        return []

    def _heard(self, sent_at: float) -> list[say.Instruction]:
        """An exchange that was sent then is answered: how long may what runs go on?"""
        self._last_heard = sent_at
        backstop = self._session.backstop
        until = {slot.task_id: slot.authorised_at + backstop for slot in self.slots.leased()}
        is_news, self._has_leases = bool(until) or self._has_leases, bool(until)
        out: list[say.Instruction] = [say.Lease(until)] if is_news else []
        if sent_at >= self._remembered + REMEMBER_SECONDS:
            self._remembered = sent_at
            out.append(say.Remember(sent_at))
        return out

    def _orders(self, orders: tuple[Cancel, ...]) -> list[say.Instruction]:
        out: list[say.Instruction] = []
        for order in orders:
            if (slot := self.slots.get(order.task_id)) is not None:
                out += self.slots.order(slot, order)
        return out

    def _disown(self, task_ids: tuple[str, ...]) -> list[say.Instruction]:
        out: list[say.Instruction] = []
        for task_id in task_ids:
            if (slot := self.slots.get(task_id)) is not None:
                out += self.slots.disown(slot)
        return out

    def _recorded(self, task_id: str, now: float) -> list[say.Instruction]:
        slot = self.slots.get(task_id)
        if slot is None:
            return []
        return self.slots.disown(slot) if slot.exit is None else self._gone(slot, now)

    def _gone(self, slot: Slot, now: float) -> list[say.Instruction]:
        self.slots.remove(slot)
        self._done[slot.task_id] = now
        return [say.Forget(slot.task_id)]

    def _session_over(self, now: float) -> None:
        self._session.over(now)
        for slot in self.slots.all:
            slot.exit_sent = None
            if slot.log.read or slot.log.shipping:
                slot.log.in_doubt()

    # --- what is to be done next ------------------------------------------------------------

    def _next(self, now: float) -> list[say.Instruction]:
        out = self.slots.looks(now)
        for slot in self.slots.all:
            if slot.may_lapse and now >= self._lapses_at(slot):
                out += self.slots.lapse(slot)
            if slot.silent and slot.exit is not None:
                out += self._gone(slot, now)
        self.slots.take_room(now)
        if self._supervised:
            out += self.slots.startable()
        for slot in (slot for slot in self.slots.all if slot.phase != "waiting"):
            out += self._log(slot, now)
        return out + self._talk(now) if self._listed else out

    def _log(self, slot: Slot, now: float) -> list[say.Instruction]:
        out: list[say.Instruction] = []
        if self._session.registered and (shipment := slot.log.next_shipment(now)) is not None:
            number = self._session.number
            out.append(say.Ship(number, slot.task_id, slot.fence, *shipment))
        reading = self._supervised and slot.phase in ("running", "exited") and slot.log.wanted
        if reading and (offset := slot.log.next_read()) is not None:
            out.append(say.Tail(slot.task_id, offset))
        return out

    def _talk(self, now: float) -> list[say.Instruction]:
        session = self._session
        if self._leaving and not len(self.slots):
            return [say.Leave()]
        out: list[say.Instruction] = []
        if now >= session.gives_up_at:
            session.away_since = now
            out.append(say.StartPlane())
        if now >= session.begins_at:
            inventory = tuple(slot.line() for slot in self.slots.all)
            self._capabilities_told = True
            out.append(session.begin(self._capabilities, inventory, now))
        if session.registered and session.report is None and now >= self._report_due():
            inventory = tuple(slot.line() for slot in self.slots.all)
            alone = self._refusals.alone
            lines = news.gather(self.slots, session.interval, now, alone=alone)
            if not lines:
                self._refusals.none_due()
            changed = None if self._capabilities_told else self._capabilities
            self._capabilities_told = True
            out.append(session.say(inventory, lines, changed, now))
        if session.may_ask and not self._leaving:
            self._remember_less(now)
            out.append(session.ask(now))
        return out

    def _report_due(self) -> float:
        if not self._capabilities_told:
            return 0.0
        return min(self._session.heartbeat_at, news.due(self.slots, self._session.interval))

    def _lapses_at(self, slot: Slot) -> float:
        return slot.authorised_at + self._session.authority

    def _remember_less(self, now: float) -> None:
        over = now - self._session.lease - self._session.park
        while self._done and self._done[oldest := next(iter(self._done))] < over:
            del self._done[oldest]
