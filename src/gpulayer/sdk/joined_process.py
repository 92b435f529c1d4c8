"""The agent of a machine that joined a server.

Started by the warden as `gpulayer.sdk.joined_process` with the arguments of `Joined.argv` and
three descriptors: 3 ends with this process, 4 takes one line about the first registration, 5 holds
the environment of the terminal that joined. It keeps no state: it may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from gpulayer.api.session_channel import SessionChannel
from gpulayer.api.wire import Wire
from gpulayer.api.worker_channel import HttpChannel
from gpulayer.errors import RefusedError
from gpulayer.runtime import hardening
from gpulayer.sdk import processes
from gpulayer.sdk.agent_process import Complaints, work
from gpulayer.sdk.declared import environment_in
from gpulayer.sdk.joined import Facts, Joined
from gpulayer.sdk.siblings import start_supervisor
from gpulayer.worker.process import Outside

TOLD, ENVIRONMENT = 4, 5


def main() -> None:
    hardening.harden()
    joined = Joined.from_argv(sys.argv[1:])
    facts, secret = joined.facts(), joined.session()
    word = _Word()
    if facts is None or secret is None:
        word.say({"error": "this worker's files cannot be read; leave, and join again"})
        os._exit(1)
    complaints, leaving = Complaints(), threading.Event()
    session = RenewedSession(joined, facts, secret)
    channel = SessionChannel(
        HttpChannel.over(facts.endpoint, session.current),
        session,
        registered=lambda: word.say({"ok": True}),
        refused=lambda error: threading.Thread(
            target=_leave, args=(joined, leaving, word, error)
        ).start(),
    )
    places = joined.places
    outside = Outside(
        lock=joined.agent_lock,
        tasks=places.tasks,
        supervisor_socket=places.supervisor_socket,
        start_supervisor=lambda: None if leaving.is_set() else start_supervisor(places),
        start_plane=lambda: None,  # it is somebody else's
        on_error=complaints,
        name=facts.name,
        python=facts.python,
        data=joined.declared.data(),
        secrets=joined.declared.secrets,
        environ=environment_in(ENVIRONMENT) or dict(os.environ),
    )
    work(channel, outside)


class RenewedSession:
    """The worker's credential. The new one is in its file before anybody carries it, and the old
    one is good until then."""

    def __init__(self, joined: Joined, facts: Facts, secret: str) -> None:
        self._joined = joined
        self._facts = facts
        self._secret = secret

    def current(self) -> str:
        return self._secret

    def renew(self) -> None:
        from gpulayer.contracts.principals import CredentialKind
        from gpulayer.sdk.enrolment import new_secret

        fresh = new_secret(CredentialKind.WORKER)
        wire = Wire(self._facts.endpoint, token=self.current, tries=1)
        try:
            body = {"worker_id": self._facts.name, "token": fresh}
            wire.call("POST", "/v1/worker/renew", body)
        finally:
            wire.close()
        self._joined.keep_session(fresh)
        self._secret = fresh


def _leave(joined: Joined, leaving: threading.Event, word: _Word, error: RefusedError) -> None:
    """The server does not want this worker any more: what it runs here ends with it."""
    leaving.set()
    why = error.why or error.message
    joined.end(why)
    if error.code == "worker-replaced":
        joined.forget_session()  # the other machine lives by it
    word.say({"error": why})
    processes.end(joined.places, "supervisor")
    os._exit(0)


class _Word:
    """What is said once to whoever joins, who may have gone. The descriptor's number is somebody
    else's after that, so there is no second time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_said = False

    def say(self, word: dict[str, Any]) -> None:
        with self._lock:
            if self._is_said:
                return
            self._is_said = True
        try:
            os.write(TOLD, json.dumps(word).encode() + b"\n")
        except OSError:
            pass
        os.close(TOLD)
