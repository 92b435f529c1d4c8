"""`gpulayer join gl://...`: this machine works for a server from now on."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING, Any

import click

from gpulayer.cli import declaring, render
from gpulayer.cli.session import options
from gpulayer.errors import NotFoundError, RefusedError, UsageError

if TYPE_CHECKING:
    from gpulayer.contracts.capabilities import WorkerCapabilities
    from gpulayer.sdk.joined import Facts, Joined


@click.command("join")
@click.argument("line", required=False, metavar="[gl://...]")
@options(
    "worker_name", "worker_python", "worker_data", "worker_secrets", "worker_labels", "foreground",
    "json", "quiet",
)  # fmt: skip
def command(
    line: str | None,
    worker_name: str | None,
    worker_python: str | None,
    worker_data: tuple[str, ...],
    worker_secrets: tuple[str, ...],
    worker_labels: tuple[str, ...],
    foreground: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make this machine a worker of a server, with the line that the server printed.

    It goes on without this terminal until `gpulayer leave`. Jobs get this terminal's PATH and its
    Python, and of secrets those that `--secret` allows. Without a line, a machine that has joined
    goes on with the environment of this terminal: after a reboot, or to give it a secret.
    """
    from gpulayer.api.endpoints import parse
    from gpulayer.sdk import enrolment, joining
    from gpulayer.sdk.joined import Joined
    from gpulayer.sdk.places import Places

    _refuse_inside_job()
    if worker_labels:
        wanted = " -l ".join(map(shlex.quote, worker_labels))
        told = shlex.join([worker_name or os.uname().nodename, *worker_labels])
        raise UsageError(
            "usage",
            "a worker's labels are granted by the server, not taken by itself",
            why="jobs are sent by them, and so are the secrets and data that jobs name",
            hint=(f"gpulayer invite -l {wanted}", f"gpulayer worker label {told}"),
        )
    data = declaring.data_sets(worker_data, "join")
    sources = declaring.secrets(worker_secrets, "join")
    home = Places.find().home
    if line is None:
        known = [one for one in Joined.all(home) if one.is_there()]
        if not known:
            raise UsageError(
                "usage",
                "this machine has joined no server",
                why="`gpulayer invite` on the server prints the line to join with",
                hint="gpulayer join --help",
            )
        for one in known:
            if worker_python is not None and (facts := one.facts()) is not None:
                one.write(facts._replace(python=_python(worker_python)))
            one.declared.keep(data, sources)
            _begin(one, foreground and len(known) == 1, as_json, quiet, is_new=False)
        return
    address = parse(line)
    code = enrolment.code_of(address, "join")
    joined = Joined.of(home, address.endpoint)
    is_new = not (joined.is_there() and joined.session())
    facts = joined.facts()
    if is_new or (facts is not None and facts.invite == enrolment.invite_of(code)):
        joining.join(joined, address, code, worker_name, _python(worker_python))
    joined.declared.keep(data, sources)
    _begin(joined, foreground, as_json, quiet, is_new)


def _begin(joined: Joined, foreground: bool, as_json: bool, quiet: bool, is_new: bool) -> None:
    from gpulayer.sdk import joining

    facts = joined.facts()
    assert facts is not None
    has = _capabilities(joined)
    if foreground:
        _stay(joined, facts, has, quiet)
        return
    why_not = joining.begin(joined, os.environ)
    if joined.ended():
        raise RefusedError(
            "unauthorized",
            f"{facts.endpoint} does not want this worker any more",
            why=joined.ended(),
            hint="gpulayer invite",
        )
    if as_json:
        found = {"server": str(facts.endpoint), "name": facts.name, "connected": not why_not}
        render.json_document({"worker": {**found, "capabilities": has.to_json()}})
    elif not quiet:
        word = "joined" if is_new else "this machine works already for"
        render.say(f"{word} {facts.endpoint.host} as {facts.name}")
        _say_what(facts, has, joined)
        if why_not:
            render.say(f"not connected yet: {why_not}")
        render.say(f"it goes on without this terminal; end it: gpulayer leave {joined.name}")


def _stay(joined: Joined, facts: Facts, has: WorkerCapabilities, quiet: bool) -> None:
    """The warden's work in this terminal. Ctrl-C and SIGTERM end the worker and what it runs; it
    stays a worker, and `gpulayer join` goes on with it."""
    from gpulayer.sdk import processes
    from gpulayer.sdk.declared import environment_file
    from gpulayer.sdk.joined_warden import keep

    joined.places.create()
    if not quiet:
        render.say(f"working for {facts.endpoint.host} as {facts.name} (Ctrl-C: end)")
        _say_what(facts, has, joined)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    environment = environment_file(os.environ)
    try:
        keep(joined, -1, environment.fileno())
        if joined.ended():
            render.say(f"the server does not want this worker any more: {joined.ended()}")
    except KeyboardInterrupt:
        processes.end(joined.places, "agent", "supervisor")
        render.say("ended; go on with it: gpulayer join")
    finally:
        environment.close()


def _say_what(facts: Facts, has: WorkerCapabilities, joined: Joined) -> None:
    from gpulayer.clock import SystemClock
    from gpulayer.worker.secrets.book import Book

    gpus = [gpu.name for gpu in has.gpus or ()]
    counted = [f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)]
    memory = f", {has.memory_gb:.0f} GB" if has.memory_gb else ""
    parts = [*(counted or ["no GPU"]), f"{has.cpu_cores:g} cores{memory}", facts.python]
    if data := joined.declared.data():
        parts.append(f"data: {', '.join(sorted(data))}")
    if secrets := joined.declared.sources():
        given = Book(joined.declared.secrets, os.environ, SystemClock()).names() or ()
        told = (name if name in given else f"{name} (has no value)" for name in sorted(secrets))
        parts.append(f"secrets: {', '.join(told)}")
    else:
        parts.append("no secrets (--secret)")
    render.say("  " + "; ".join(map(render.plain, parts)))


def _capabilities(joined: Joined) -> WorkerCapabilities:
    """What this machine has, as the worker will find it too."""
    from pathlib import Path

    from gpulayer.gpu.discovery import discover_fast, discover_gpus, with_gpus
    from gpulayer.gpu.machine import Machine

    machine = Machine(environ=dict(os.environ))
    found = discover_fast(machine, workspace=Path(joined.places.tasks))
    return found if found.gpus is not None else with_gpus(found, discover_gpus(machine, []))


def _python(asked: str | None) -> str:
    """The interpreter for jobs that bring none, by its full path."""
    from gpulayer.sdk import world

    if asked is None:
        seen = world.of_terminal(["python"])
        seen.close()
        return seen.interpreter.path
    path = os.path.abspath(os.path.expanduser(asked))
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        raise NotFoundError(
            "file-not-found", f"--python: {path} is no program", hint=f"ls {shlex.quote(path)}"
        )
    return path


def _refuse_inside_job() -> None:
    if outer := os.environ.get("GPULAYER_JOB_ID"):
        raise RefusedError(
            "not-allowed",
            "a job cannot be a worker: it would end with the job",
            why=f"this process belongs to job {outer}",
            hint="gpulayer help not-allowed",
        )
