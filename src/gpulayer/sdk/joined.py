"""A machine that joined a server as a worker: what is kept of that, and the processes of it.

    HOME/joined/NAME/worker.json    where the server is, what this worker is called, its Python
    HOME/joined/NAME/session        the worker's credential, readable by its owner alone
    HOME/joined/NAME/*.json         its data sets and secrets, see `declared`
    HOME/joined/NAME/ended          why the server does not want this worker any more

NAME is the server's host and port. The rest of the folder is a home as any other, with an agent
and a supervisor, and no plane. A warden keeps the agent alive, the agent the supervisor; one that
was killed is replaced, and after a reboot `gpulayer join` without a line begins all of them again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from gpulayer.api.endpoints import Far, parse
from gpulayer.errors import GPULayerError, StorageError
from gpulayer.sdk.declared import Declared
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import is_held
from gpulayer.sdk.servers import read_token, write_private

SCHEMA = 1
KINDS = ("warden", "agent", "supervisor")


class Facts(NamedTuple):
    """What was agreed when this machine joined."""

    url: str
    name: str
    """The worker's; also its id."""
    invite: str
    """Names the invitation, see `enrolment.invite_of`."""
    python: str
    """The interpreter for jobs that bring none."""

    @property
    def endpoint(self) -> Far:
        return parse(self.url).endpoint


class Joined:
    """One server's folder. Nothing is created or checked by making one."""

    def __init__(self, home: str, name: str, places: Places | None = None) -> None:
        self.name = name
        self.folder = os.path.join(home, "joined", name)
        self.places = places or Places.find({**os.environ, "GPULAYER_HOME": self.folder})
        self.session_file = os.path.join(self.places.state, "session")
        self._facts = os.path.join(self.places.state, "worker.json")
        self.declared = Declared(self.places.state)
        self._ended = os.path.join(self.places.state, "ended")

    @classmethod
    def from_argv(cls, argv: Sequence[str]) -> Joined:
        """The inverse of `argv`, for the daemons."""
        return cls(argv[4], argv[5], Places.from_argv(argv[:4]))

    def argv(self) -> list[str]:
        return [*self.places.argv(), os.path.dirname(os.path.dirname(self.folder)), self.name]

    @property
    def agent_lock(self) -> str:
        return os.path.join(self.places.state, "agent.lock")

    @property
    def warden_lock(self) -> str:
        return os.path.join(self.places.state, "warden.lock")

    @classmethod
    def all(cls, home: str) -> Iterator[Joined]:
        """Those of that home, by name."""
        try:
            names = sorted(os.listdir(os.path.join(home, "joined")))
        except (FileNotFoundError, NotADirectoryError):
            return
        yield from (cls(home, name) for name in names)

    @classmethod
    def of(cls, home: str, endpoint: Far) -> Joined:
        """The one of that server: by its certificate, wherever it listens now, else a new one."""
        for known in cls.all(home):
            facts = known.facts()
            if facts is not None and endpoint.pin and facts.endpoint.pin == endpoint.pin:
                return known
        host = endpoint.name.replace(":", "-").replace("%", "-")
        return cls(home, f"{host}-{endpoint.port}")

    def facts(self) -> Facts | None:
        """None before the first try to join, or where nothing of it can be read."""
        try:
            with open(self._facts, encoding="utf-8") as file:
                found = json.load(file)
            return Facts(*(str(found[field]) for field in Facts._fields))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, facts: Facts) -> None:
        write_private(self._facts, json.dumps({"schema": SCHEMA, **facts._asdict()}) + "\n")

    def session(self) -> str | None:
        """The credential; None where there is none that can be used."""
        try:
            return read_token(self.session_file) or None
        except GPULayerError:
            return None

    def keep_session(self, secret: str) -> None:
        write_private(self.session_file, secret)

    def forget_session(self) -> None:
        """Nothing is to be given back by it, and no name asked for."""
        with suppress(FileNotFoundError):
            os.unlink(self.session_file)

    def ended(self) -> str:
        """Why the server has done with this worker; empty while it has not."""
        try:
            with open(self._ended, encoding="utf-8") as file:
                return file.read(500).strip()
        except OSError:
            return ""

    def end(self, why: str) -> None:
        """Note it: nobody is to begin this worker again. A folder that is gone says so too."""
        try:
            write_private(self._ended, why + "\n")
        except StorageError:
            pass

    def begin_anew(self) -> None:
        """It has joined again."""
        with suppress(FileNotFoundError):
            os.unlink(self._ended)

    def is_there(self) -> bool:
        """Whether this machine is still to work for that server."""
        return os.path.exists(self._facts) and not self.ended()

    def runs(self) -> bool:
        """Whether its agent lives."""
        return is_held(self.agent_lock)

    def remove(self) -> None:
        """All that is left of it, once its processes have ended."""
        for folder in {self.folder, self.places.state, self.places.bulk, self.places.runtime}:
            shutil.rmtree(folder, ignore_errors=True)
