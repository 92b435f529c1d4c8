"""`gpulayer plan`: where a job would run and why. Nothing is submitted."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from gpulayer.cli import carry, render
from gpulayer.cli.flags import server_for, starting_options
from gpulayer.cli.outlook import show_outlook
from gpulayer.cli.session import connect_to, options
from gpulayer.cli.simulate import text_of
from gpulayer.cli.submit import Described, described, line_of, words_of
from gpulayer.cli.why import show_decision
from gpulayer.sdk.describe import ANYWHERE

if TYPE_CHECKING:
    from gpulayer.sdk.servers import Elsewhere

Facts = list[tuple[str, str]]


@click.command("plan", cls=Described, context_settings={"allow_interspersed_args": False})
@starting_options
@options("file", "args", "kwargs", "planned_fleet", "json", "quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    command: tuple[str, ...],
    job_file: str | None,
    args: str | None,
    kwargs: str | None,
    planned_fleet: str | None,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Say where a job would run, what would run there, and why not elsewhere.

    Exit code 1: with these workers it never runs. --fleet asks it of machines that need not exist,
    all of them idle: a file such as `simulate --fleet` takes.
    """
    if planned_fleet is not None:
        anywhere = flags | {"on": flags["on"] or flags["target"] or ANYWHERE}
        spec = described(command, job_file, args, kwargs, flags if job_file else anywhere, None)
        return _told(_on_fleet(spec, planned_fleet), [], [], "", as_json, quiet)
    server = server_for(flags)
    spec = described(command, job_file, args, kwargs, flags, server)
    return show(spec, words_of(spec), server, flags, as_json, quiet)


def show(
    spec: Mapping[str, Any],
    words: Sequence[str],
    server: Elsewhere | None,
    flags: Mapping[str, Any],
    as_json: bool,
    quiet: bool,
) -> int:
    """Print the plan. 0 when it could start now or later, 1 when never. Nothing is sent."""
    packed = carry.packed(spec, flags, server)
    sends = [] if packed is None else packed.say()
    origin, facts, lack = _from_here(spec, words) if server is None else _from_afar(words)
    if image := spec.get("image"):
        facts = [fact for fact in facts if fact[0] != "python"] + [("image", str(image))]
    decision = connect_to(server).call("POST", "/v1/plan", {"spec": spec, "origin": origin})
    return _told(decision, facts, sends, lack, as_json, quiet)


def _on_fleet(spec: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The answer about a fleet from a file; no plane is asked."""
    from gpulayer.clock import SystemClock
    from gpulayer.simulate.fleet import read_fleet
    from gpulayer.simulate.preview import preview

    return preview(spec, read_fleet(text_of(name), name), SystemClock().now())


def _told(
    decision: Mapping[str, Any],
    facts: Facts,
    sends: Sequence[str],
    lack: str,
    as_json: bool,
    quiet: bool,
) -> int:
    fits = [verdict["fit"] for verdict in decision["verdicts"]]
    never = decision["outcome"] == "unschedulable" or (bool(fits) and set(fits) == {"never"})
    if as_json:
        noted = dict(decision) | ({"note": lack} if lack else {})
        render.json_document({"plan": noted, "sends": sends})
    elif quiet:
        render.data("never" if never else decision["outcome"])
    else:
        render.paragraph(_sentence(decision, never) + (f"; {lack}" if lack else ""))
        for name, value in [*facts, *(("sends", line) for line in sends)]:
            render.data(f"{name + ':':<9}{render.plain(value)}")
        show_decision(decision)
        show_outlook(decision.get("outlook"))
    return int(never)


def _from_here(spec: Mapping[str, Any], words: Sequence[str]) -> tuple[dict[str, Any], Facts, str]:
    """The origin, and for people what would run where, and what it lacks."""
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_of

    seen = world.of_terminal(line_of(spec))
    seen.close()
    is_command = spec["workload"]["kind"] == "command" and not spec.get("image")
    line = seen.line if is_command else words
    lack = ""
    if is_command and shutil.which(line[0], path=seen.environ.get("PATH")) is None:
        lack = f"but {line[0]} is not found on the PATH here, so it would end with 127"
    elif missing := _without_value(spec, seen.environ):
        lack = f"but the secret {missing} has no value here, so it would end with 126"
    facts = [
        ("command", shlex.join(line)),
        ("folder", seen.envelope["cwd"]),
        ("python", seen.interpreter.say()),
    ]
    return origin_of(seen, words), facts, lack


def _without_value(spec: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """A secret that neither this terminal nor this machine's list has; empty: there is none."""
    from gpulayer.contracts.secret_names import wanted
    from gpulayer.sdk.declared import Declared
    from gpulayer.sdk.places import Places

    secrets = [secret for secret in spec.get("secrets") or () if secret.get("source") != "file"]
    listed = Declared(Places.find().state).sources() if secrets else {}
    lacking = (s["name"] for s in secrets if not environ.get(wanted(s)) and wanted(s) not in listed)
    return next(lacking, "")


def _from_afar(words: Sequence[str]) -> tuple[dict[str, Any], Facts, str]:
    from gpulayer.sdk.far import far_origin

    facts = [
        ("command", shlex.join(words)),
        ("folder", "a workspace of its own on the worker"),
        ("python", "the worker's"),
    ]
    return far_origin(words), facts, ""


def _sentence(decision: Mapping[str, Any], never: bool) -> str:
    summary = str(decision["summary"])
    if decision["outcome"] == "placed":
        return f"it would start now: {summary}"
    if never:
        return f"it can never start here: {summary.removesuffix('; waits for one that can')}"
    return f"it would wait: {summary.removeprefix('waits: ')}"
