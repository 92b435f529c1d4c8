"""An agent on a table: facts go in, what it wants done comes out, time passes when told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from gpulayer.contracts.messages import (
    Acquired,
    Assignment,
    Cancel,
    Exit,
    Registered,
    Report,
    ReportReply,
)
from gpulayer.runtime import segments
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.agent import Agent

I = TypeVar("I")  # noqa: E741

SUCCEEDED: Mapping[str, Any] = {
    "outcome": "succeeded",
    "reason": "exited",
    "code": 0,
    "exit_code": 0,
    "started_at": 5.0,
    "ended_at": 6.0,
}
CANCELLED = {**SUCCEEDED, "outcome": "cancelled", "reason": "user", "code": None, "exit_code": 137}


class Desk:
    """Answers nothing by itself, except where a verb says so."""

    def __init__(self, *, last_heard: float = float("-inf"), listed: bool = True) -> None:
        self.agent = Agent("w", "w", "nonce", "local", {"cpu_cores": 4}, last_heard)
        self.now = 100.0
        self.said: list[say.Instruction] = []
        self._fences = 0
        if listed:
            self.hear(heard.SupervisorListed())

    def hear(self, event: heard.Event) -> list[say.Instruction]:
        fresh = self.agent.handle(event, self.now)
        self.said += fresh
        return fresh

    def pass_time(self, seconds: float) -> list[say.Instruction]:
        """Let it tick whenever it asked for that."""
        fresh: list[say.Instruction] = []
        end = self.now + seconds
        while self.agent.deadline() <= end:
            self.now = max(self.now, self.agent.deadline())
            fresh += self.hear(heard.Tick())
        self.now = end
        return fresh

    def all(self, kind: type[I]) -> list[I]:
        return [one for one in self.said if isinstance(one, kind)]

    def newest(self, kind: type[I]) -> I:
        return self.all(kind)[-1]

    # --- the plane --------------------------------------------------------------------------

    def register(self, **reply: Any) -> list[say.Instruction]:
        session = self.newest(say.SendRegister).session
        return self.hear(heard.RegisterAnswered(session, Registered(1, 30.0, 5.0, **reply)))

    def answer_report(self, **reply: Any) -> list[say.Instruction]:
        """Records every end that the report in flight carries."""
        sent = self.newest(say.SendReport)
        recorded = tuple(news.task_id for news in sent.message.tasks if news.exit)
        answer = ReportReply(**{"recorded": recorded, **reply})
        return self.hear(heard.ReportAnswered(sent.session, answer))

    def lose_call(self) -> list[say.Instruction]:
        return self.hear(heard.CallFailed(self.newest(say.SendAcquire).session))

    def refuse_report(self, why: str = "too large") -> list[say.Instruction]:
        """And let the agent register again."""
        fresh = self.hear(heard.ReportRefused(self.newest(say.SendReport).session, why))
        fresh += self.pass_time(1.0)
        return fresh + self.register()

    def report(self) -> Report:
        return self.newest(say.SendReport).message

    def acquired(self, *assignments: Assignment, **answer: Any) -> list[say.Instruction]:
        asked = self.newest(say.SendAcquire)
        return self.hear(
            heard.AcquireAnswered(
                asked.session, asked.number, Acquired(assignments=assignments, **answer)
            )
        )

    def assignment(self, job_id: str = "job", **fields: Any) -> Assignment:
        self._fences += 1
        spec: dict[str, Any] = {"workload": {"kind": "command", "command": ["true"]}}
        if retries := fields.pop("retries", 0):
            spec["retry"] = {"max_attempts": retries + 1}
        base: dict[str, Any] = {"index": 0, "attempt": 1, "rank": 0, "spec": spec, "origin": {}}
        return Assignment(f"t{self._fences}", self._fences, job_id, "job", **(base | fields))

    def given(self, **fields: Any) -> str:
        """A task that is being prepared."""
        assignment = self.assignment(**fields)
        self.acquired(assignment)
        return assignment.task_id

    def cancel(self, task_id: str, mode: str = "term", grace: float = 3.0) -> list[say.Instruction]:
        return self.acquired(cancel=(Cancel(task_id, mode, grace),))

    # --- the machine ------------------------------------------------------------------------

    def started(self, task_id: str) -> list[say.Instruction]:
        runs = [run for run in self.all(say.Run) if run.assignment.task_id == task_id]
        return self.hear(heard.TaskStarted(task_id, runs[-1].number, 5.0))

    def refused(self, task_id: str, end: Exit) -> list[say.Instruction]:
        runs = [run for run in self.all(say.Run) if run.assignment.task_id == task_id]
        return self.hear(heard.TaskRefused(task_id, runs[-1].number, end))

    def running(self, **fields: Any) -> str:
        """A task whose start the plane knows."""
        task_id = self.given(**fields)
        self.started(task_id)
        self.pass_time(0.1)
        self.answer_report()
        return task_id

    def printed(
        self, task_id: str, data: bytes, *, end: Mapping[str, Any] | None = None
    ) -> list[say.Instruction]:
        """More of its log, and perhaps its end."""
        asked = [0]  # a task is read from its beginning by its start
        asked += [tail.offset for tail in self.all(say.Tail) if tail.task_id == task_id]
        return self.hear(heard.LogRead(task_id, asked[-1], data, end))

    def ended(self, task_id: str, raw: Mapping[str, Any] = SUCCEEDED) -> list[say.Instruction]:
        """It ends silently, and what it left is gathered."""
        fresh = self.printed(task_id, b"", end=raw)
        return fresh + self.collected(task_id, raw)

    def collected(self, task_id: str, raw: Mapping[str, Any] = SUCCEEDED) -> list[say.Instruction]:
        end = Exit(raw["outcome"], raw["reason"], exit_code=raw["exit_code"])
        return self.hear(heard.TaskCollected(task_id, end))


def record(text: bytes) -> bytes:
    """One record of a log segment."""
    return segments.encode(segments.STDOUT, 0, 0, 1.0, text)


def kinds(instructions: list[say.Instruction]) -> list[str]:
    return [type(one).__name__ for one in instructions]
