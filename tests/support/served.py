"""A real `gpulayer serve` in a home of the test's own.

    with Served() as served:              # or the fixture `served`, one per module
        served.endpoint                   # host, port and pin: what `api.wire.Wire` takes
        served.join, served.login         # the two lines as printed, without `gpulayer`
        served.admin.call("GET", "/v1/jobs")      # a Wire with an admin's token
        served.client("viewer").call(...)         # a Wire with a new token of that role
        served.token("operator")                  # the text of a new token of that role
        served.enrolled("lab")                    # a worker's session: name and token
        served.wire(), served.run("true"), ...    # the private socket: see `LocalHome`

`Served("--no-worker")` passes arguments on. Leaving the context kills all that belongs to it.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from typing import Any

from gpulayer.api import credentials
from gpulayer.api.endpoints import Far
from gpulayer.api.wire import Wire
from gpulayer.clock import SystemIds
from gpulayer.contracts.principals import CredentialKind
from tests.support.local_home import SECONDS, LocalHome

IDS = SystemIds()


class Served(LocalHome):
    def __init__(self, *argv: str, **environ: str) -> None:
        super().__init__(**environ)
        self.process: Any = None
        self.argv = ("--listen", "127.0.0.1:0", "--json", *argv)

    def __enter__(self) -> Served:
        try:
            self.begin()
        except BaseException:
            self.kill_all()
            raise
        return self

    def kill_all(self) -> None:
        super().kill_all()
        if self.process is not None:
            self.process.wait(SECONDS)
            self.process.stdout.close()

    def begin(self, *more: str) -> None:
        """Start it; again after `end`. `more` arguments win."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpulayer", "serve", *self.argv, *more],
            env=self.environ,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert select.select([self.process.stdout], [], [], SECONDS)[0], "it said nothing"
        self.said: dict[str, Any] = json.loads(self._document())
        if "error" in self.said:
            return
        self.join = self.said["join"].removeprefix("gpulayer join ")
        self.login = self.said["login"].removeprefix("gpulayer login ")
        host, _, port = self.said["address"].rpartition(":")
        self.endpoint = Far(host, int(port), self.said["fingerprint"])
        self.admin = self.client("admin")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def token(self, role: str) -> str:
        """A new one, minted over the private socket."""
        secret = credentials.make(CredentialKind.CLIENT, IDS)
        body = {"token": secret.reveal(), "role": role, "name": role}
        self.wire().call("POST", "/v1/tokens", body)
        return secret.reveal()

    def client(self, role: str) -> Wire:
        return self.bearer(self.token(role))

    def bearer(self, token: str | None) -> Wire:
        """A client over TCP that carries that token; one try."""
        return Wire(self.endpoint, token=(lambda: token) if token else None, tries=1)

    def invite(self, role: str = "worker", **grant: Any) -> str:
        """A code."""
        code = credentials.make(CredentialKind.JOIN, IDS)
        body = {"code": code.reveal(), "role": role, **grant}
        self.wire().call("POST", "/v1/invites", body)
        return code.reveal()

    def enrolled(self, name: str, **grant: Any) -> tuple[str, str]:
        """A worker that has traded a code for a session: its name, and the session."""
        secret = credentials.make(CredentialKind.WORKER, IDS)
        body = {"code": self.invite(**grant), "token": secret.reveal(), "name": name}
        made = self.bearer(None).call("POST", "/v1/enrol", body)
        return made["worker"], secret.reveal()

    def link(self, code: str) -> str:
        """The line to join or log in with."""
        return credentials.link(self.said, credentials.read_code(code))

    def _document(self) -> str:
        """The one JSON document that it prints."""
        text = ""
        for line in self.process.stdout:
            text += line.decode()
            try:
                json.loads(text)
            except ValueError:
                continue
            break
        return text
