"""Calls of functions through a supervisor, cold and forked from a template."""

from __future__ import annotations

import itertools
import json
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulayer.runtime import frames, function_runner, processes
from tests.support.supervisor import Ended, SupervisorHome, eventually

MODULE = "calls"


@dataclass
class Called:
    ended: Ended
    cold: str
    """Why it was not forked; nothing where it was."""
    result: dict[str, Any] | None

    @property
    def value(self) -> Any:
        assert "value" in (self.result or {}), (self.result, self.ended.said())
        return (self.result or {})["value"]

    @property
    def seen(self) -> tuple[Any, ...]:
        """All that a person would see of it."""
        said = self.ended.said(1), self.ended.said(2)
        return (*said, self.ended.exit["exit_code"], self.result)


class Calls:
    """Functions of one module in the home's folder, called with one interpreter."""

    def __init__(self, home: SupervisorHome, python: str = sys.executable) -> None:
        self.home = home
        self.python = python
        self.agent = home.connect("agent")
        self._numbers = itertools.count(1)

    def write(self, text: str, name: str = MODULE) -> Path:
        path = self.home.folder / f"{name}.py"
        path.write_text(textwrap.dedent(text))
        return path

    def task(
        self, function: str, *args: Any, preload: tuple[str, ...] = (), **changes: Any
    ) -> dict[str, Any]:
        folder = self.home.folder.parent / f"call{next(self._numbers)}"
        folder.mkdir()
        call, result = folder / "call.json", folder / "result.json"
        places = [str(self.home.folder)]
        wanted = {"module": MODULE, "function": function, "sys_path": places, "args": list(args)}
        call.write_text(json.dumps({**wanted, "kwargs": {}, "stand_in": True}))
        envelope = changes.pop("envelope", None) or self.home.envelope()
        given = self.agent.call("envelope", envelope=envelope, keep=False)
        warm = {"preload": list(preload), "sys_path": places, "in_place": True}
        argv = [self.python, function_runner.__file__, str(call), str(result)]
        return self.home.task(*argv, **{**given, "warm": warm, **changes}) | {
            "envelope_id": given["envelope_id"]
        }

    def start(self, task: dict[str, Any]) -> str:
        """Why it began cold; nothing where it was forked."""
        return str(self.agent.call("start", task=task)["cold"])

    def end(self, task: dict[str, Any], cold: str = "") -> Called:
        ended = self.home.follow(self.agent, task["task_id"])
        path = Path(task["argv"][3])
        return Called(ended, cold, json.loads(path.read_text()) if path.exists() else None)

    def call(self, function: str, *args: Any, **changes: Any) -> Called:
        task = self.task(function, *args, **changes)
        return self.end(task, self.start(task))

    def forked(self, function: str, *args: Any, **changes: Any) -> Called:
        """The first call that is not cold."""
        found: list[Called] = []

        def is_forked() -> bool:
            found.append(self.call(function, *args, **changes))
            assert found[-1].cold in ("", *WAITING), found[-1].cold
            return not found[-1].cold

        eventually(is_forked)
        return found[-1]

    def refusal(self, function: str, *args: Any, **changes: Any) -> str:
        """Why its template will not be."""
        found: list[str] = []

        def is_refused() -> bool:
            found.append(self.call(function, *args, **changes).cold)
            return found[-1] not in WAITING

        eventually(is_refused)
        return found[-1]

    def templates(self) -> list[int]:
        """Templates that live: of each leaf the oldest, beside which a spare may still be."""
        first: dict[str, int] = {}
        for pid in sorted(filter(is_template, self.with_spares()), key=_began):
            first.setdefault(_leaf(pid), pid)
        return list(first.values())

    def with_spares(self) -> list[int]:
        """Templates, and what they have forked, for calls to come as well."""
        assert self.home.process is not None
        found = processes.children(self.home.process.pid)
        return [pid for pid in found if is_template(pid) or "/call." in _leaf(pid)]


WAITING = ("its warm process begins with it", "its warm process is still importing")


def is_template(pid: int) -> bool:
    return "/zygote." in _leaf(pid)


def _leaf(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def _began(pid: int) -> int:
    """In ticks since the machine started (proc_pid_stat(5))."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0


def ask(connection: frames.Connection, task: dict[str, Any]) -> None:
    """A start whose answer nobody waits for."""
    connection.send_json({"op": "start", "seq": 9999, "task": task})
