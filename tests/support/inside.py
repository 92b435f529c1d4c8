"""Two places with running jobs to go into: this machine, and a worker that joined a server.

here = Here()                      far = Afar()
job = here.running("sleep 100")    here.line("exec", job, "--", "true")
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpulayer.api.wire import Wire
from tests.support.local_home import LocalHome
from tests.support.served import Served

GPULAYER = [sys.executable, "-m", "gpulayer"]


class Place:
    """A terminal from which jobs are entered. Leaving the context ends all that belongs to it."""

    home: LocalHome
    """Of the terminal."""

    def __init__(self) -> None:
        self.undo = ExitStack()
        self.jobs = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo.__exit__(kind, error, trace)

    def line(self, *words: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
        """`gpulayer WORDS` to its end."""
        done: subprocess.CompletedProcess[bytes] = self.home.typed(*GPULAYER, *words, **how)
        return done

    def begun(self, *words: str, **how: Any) -> subprocess.Popen[bytes]:
        """The same, begun."""
        how = {"stdin": subprocess.DEVNULL, "cwd": self.home.work, "env": self.home.environ, **how}
        return subprocess.Popen([*GPULAYER, *words], **how)

    def running(self, script: str, **spec: Any) -> str:
        """A job of `sh -c script` that runs."""
        job = self.submit(script, **spec)
        path = f"/v1/jobs/{job}?wait=60&until=started"
        assert self.wire().call("GET", path, park=60)["state"] == "running"
        return job

    def ended(self, job: str) -> dict[str, Any]:
        return dict(self.wire().call("GET", f"/v1/jobs/{job}?wait=60", park=60))

    def story(self, job: str, kind: str) -> list[dict[str, Any]]:
        events = self.wire().call("GET", f"/v1/jobs/{job}/events")["events"]
        return [event for event in events if event["kind"] == kind]

    def cancel(self, job: str) -> None:
        self.wire().call("POST", f"/v1/jobs/{job}/cancel", {"mode": "kill"})
        self.ended(job)

    def submit(self, script: str, **spec: Any) -> str:
        raise NotImplementedError

    def wire(self) -> Wire:
        raise NotImplementedError

    def pid(self, kind: str) -> int:
        """Of `plane`, or the `agent` or `supervisor` where jobs run."""
        raise NotImplementedError


class Here(Place):
    """This machine's own plane."""

    def __init__(self, **environ: str) -> None:
        super().__init__()
        self.home = self.undo.enter_context(LocalHome(TERM="xterm", SHELL="/bin/sh", **environ))
        self.folder = self.home.work

    def submit(self, script: str, **spec: Any) -> str:
        words = [w for k, v in spec.items() for w in (f"--{k.replace('_', '-')}", str(v))]
        done = self.line("submit", "-q", *words, "--", "sh", "-c", script)
        assert done.returncode == 0, done
        return done.stdout.decode().strip()

    def wire(self) -> Wire:
        return self.home.wire()

    def pid(self, kind: str) -> int:
        return self.home.pid(kind)


class Afar(Place):
    """A server over TLS without a worker of its own, and a machine that joined it."""

    def __init__(self, **environ: str) -> None:
        super().__init__()
        self.served = self.undo.enter_context(Served("--no-worker"))
        self.machine = self.undo.enter_context(LocalHome(SHELL="/bin/sh", **environ))
        link = self.served.link(self.served.invite())
        joined = self.machine.typed(*GPULAYER, "join", link, "--name", "lab")
        assert joined.returncode == 0, joined
        self.home = self.undo.enter_context(self.person("submitter"))

    def person(self, role: str) -> LocalHome:
        """The home of somebody who has that role there."""
        url, token = self.served.endpoint.url, self.served.token(role)
        return LocalHome(TERM="xterm", GPULAYER_URL=url, GPULAYER_TOKEN=token)

    def submit(self, script: str, **spec: Any) -> str:
        body = {
            "name": "far",
            "workload": {"kind": "command", "command": ["sh", "-c", script]},
            "placement": {"target": "remote"},
            **spec,
        }
        return str(self.wire().call("POST", "/v1/jobs", {"spec": body})["id"])

    def wire(self) -> Wire:
        return self.served.bearer(self.home.environ["GPULAYER_TOKEN"])

    def pid(self, kind: str) -> int:
        if kind == "plane":
            return int(self.served.process.pid)
        return self.machine.joined_pid(kind)


def reads(path: Path) -> str:
    return path.read_text() if path.exists() else ""
