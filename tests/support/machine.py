"""Another machine, as far as one machine can have two: it joins a real server and works for it.

with joined_to(served, "lab", "--secret", "KEY") as machine:
    job = submitted(served, "lab", "echo hello")
    until(served, job, "succeeded")
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpulayer.sdk.processes import running
from tests.support.local_home import SECONDS, LocalHome, slay
from tests.support.served import Served


class Machine(LocalHome):
    """A home of its own, and nothing else."""

    def gpulayer(self, *words: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "gpulayer", *words],
            env=self.environ,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert check is None or done.returncode == check, (done, self.last_words())
        return done

    def kinds(self) -> list[str]:
        """Of the worker's processes."""
        return [kind for kind, _ in running(self.joined.places)]

    def slay(self, *kinds: str) -> None:
        for kind, pid in running(self.joined.places):
            if kind in kinds:
                slay(pid)

    def last_words(self) -> str:
        logs = sorted((self.folder / "home").glob("joined/*/*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)


@contextmanager
def joined_to(served: Served, name: str, *more: str, **environ: str) -> Iterator[Machine]:
    with Machine(**environ) as machine:
        machine.gpulayer("join", served.link(served.invite()), "--name", name, *more)
        yield machine


def submitted(served: Served, name: str, script: str, **more: Any) -> str:
    """A job for that worker."""
    spec = {
        "name": "far",
        "workload": {"kind": "command", "command": ["sh", "-c", script]},
        "placement": {"target": "remote", "worker_ids": [name]},
        **more,
    }
    return str(served.admin.call("POST", "/v1/jobs", {"spec": spec})["id"])


def until(served: Served, job: str, state: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def there() -> bool:
        found.update(served.admin.call("GET", f"/v1/jobs/{job}"))
        return bool(found["state"] == state)

    served.until(there)
    return found
