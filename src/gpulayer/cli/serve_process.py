"""What `gpulayer serve` turns itself into: HOME RUNTIME STATE BULK, and the rest as `daemon.heard`.

The port comes first: where it is taken, nothing of the home has been touched. Then the seat, from
the local plane if that has it, and from there on it is a plane as any other (`sdk.plane_host`).
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from gpulayer.api import credentials
from gpulayer.cli import render
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.principals import LOCAL, CredentialKind, Role
from gpulayer.control_plane.enrolment import Grant
from gpulayer.errors import GPULayerError, RefusedError
from gpulayer.runtime import daemon, hardening
from gpulayer.sdk import certificate, listening, local, processes, siblings
from gpulayer.sdk.handover import take_seat
from gpulayer.sdk.places import Places
from gpulayer.sdk.plane_host import Front, Kind, PlaneHost
from gpulayer.slugs import SLUGS

if TYPE_CHECKING:
    from gpulayer.sdk.wiring import Wired

VARIABLES = 3
"""Descriptor of what this machine's worker may give of the terminal's environment."""


def main() -> None:
    """Does not return. Exit code 0 after a stop, else that of the error."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    render.prepare_streams()
    hardening.harden()
    asked = json.loads(daemon.heard())
    os.environ.update(asked.pop("environ"))  # for obstore; a daemon that we start gets none of it
    try:
        _serve(Places.from_argv(sys.argv[1:5]), asked)
    except GPULayerError as error:
        if asked["json"]:
            render.json_document({"error": error.to_json()})
        else:
            render.error(error)
        sys.stdout.flush()
        os._exit(SLUGS.get(error.code, SLUGS["internal"]).exit)
    sys.stdout.flush()
    os._exit(0)


def _serve(places: Places, asked: dict[str, Any]) -> None:
    import asyncio

    import gpulayer.sdk.wiring  # noqa: F401  before the seat is asked for: nothing may delay it

    wished = listening.Address(asked["host"], asked["port"])
    sock = listening.bind(wished)
    if asked["plain"] and not listening.is_loopback(sock):
        raise RefusedError(
            "not-encrypted",
            f"--plain would let everybody read what goes to {wished}",
            why="plain http is for loopback alone",
            hint="gpulayer serve",
        )
    cert = None
    if not asked["plain"]:
        own = not asked["chain"]
        cert = (
            certificate.own(places.home, SystemClock())
            if own
            else certificate.given(asked["chain"], asked["key"])
        )
    told = listening.advertised(wished, sock, asked["advertise"])
    facts = {
        "name": asked["name"],
        "address": str(told),
        "fingerprint": None if cert is None else cert.fingerprint,
        "durability": asked["durability"],
        "database": "postgresql" if "://" in asked["database"] else "sqlite",
    }
    tls, names = None, listening.names_of(wished, told)
    if cert is not None:
        tls = cert.context()
        names |= set(certificate.names_in(cert.chain))
    kind = Kind.served(
        Front(sock, tls, facts, names),
        durability=asked["durability"],
        database=asked["database"],
        artifacts=asked["artifacts"],
        has_worker=asked["has_worker"],
        variables=(VARIABLES,),
    )
    seat, claim = take_seat(places, "serve")
    seat.announce("serve")
    seat.bind()
    started = []
    if asked["has_worker"]:
        processes.end(places, "agent")  # of the plane before; this one is told what it may give
        started.append(siblings.begin_agent(places, VARIABLES))
        if not local.answers(places.supervisor_socket):
            started.append(siblings.begin_supervisor(places))
    for has_left in started:
        has_left()
    host = PlaneHost(places, seat, claim, kind)
    asyncio.run(host.run(lambda wired: _tell(wired, places, facts, asked)))
    if not asked["quiet"]:
        render.say("stopped serving; jobs on other machines go on, and report on return")


def _tell(wired: Wired, places: Places, facts: dict[str, Any], asked: dict[str, Any]) -> None:
    """Say where it serves, and hand out one code for a worker and one for a person."""
    lines = {}
    if not asked["quiet"]:
        for verb, role in (("join", Role.WORKER), ("login", Role.SUBMITTER)):
            code = credentials.make(CredentialKind.JOIN, SystemIds())
            wired.plane.invite(code.presented, Grant(role), LOCAL).result()
            lines[verb] = f"gpulayer {verb} {credentials.link(facts, code)}"
    if asked["json"]:
        render.json_document({**facts, "pid": os.getpid(), "home": places.home, **lines})
    elif lines:
        scheme = "http" if facts["fingerprint"] is None else "https"
        render.say(f"{facts['name']} serves on {scheme}://{facts['address']}, from {places.home}")
        render.say("within 1 h, on another machine, to give it work:")
        render.data(lines["join"])
        render.say("or, to work from there:")
        render.data(lines["login"])
        render.say("more of these lines: gpulayer invite; end: Ctrl-C")
    sys.stdout.flush()
