"""A plane, a worker on another machine that joined it over TLS, and a person with a project."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.local_home import SECONDS, LocalHome
from tests.support.served import Served


class Person(LocalHome):
    """Somebody with a project, at a machine that runs nothing of it."""

    def gpulayer(self, *words: str, check: int = 0) -> subprocess.CompletedProcess[str]:
        return self.started(sys.executable, "-m", "gpulayer", *words, check=check)

    def started(self, *words: str, check: int = 0) -> subprocess.CompletedProcess[str]:
        return self.reading(None, *words, check=check)

    def reading(
        self, stdin: str | int | None, *words: str, check: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """The same with something on standard input: text, or a descriptor."""
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL if stdin is None else stdin}
        done = subprocess.run(
            words,
            env=self.environ,
            cwd=self.work,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            **({"input": stdin} if isinstance(stdin, str) else how),
        )
        assert done.returncode == check, done
        return done

    def put(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(text)


class Site:
    def __init__(self, served: Served, worker: LocalHome, person: Person) -> None:
        self.served, self.worker, self.person = served, worker, person

    @property
    def tasks(self) -> Path:
        (found,) = (self.worker.folder / "home" / "joined").glob("*/tasks")
        return found


@contextmanager
def travel() -> Iterator[Site]:
    with Served("--no-worker") as served, Person() as worker, Person() as person:
        worker.gpulayer("join", served.link(served.invite()), "--name", "lab")
        person.gpulayer("login", served.login)
        try:
            yield Site(served, worker, person)
        finally:
            worker.gpulayer("leave")
