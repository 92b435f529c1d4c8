"""`gpulayer submit`: queue a job and leave. A command, `module:function`, or a job file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gpulayer.cli import carry, render
from gpulayer.cli.flags import function_workload, server_for, spec_from, starting_options
from gpulayer.cli.session import connect_to, options
from gpulayer.cli.table import FLAGS
from gpulayer.errors import NotFoundError, SpecError, UsageError
from gpulayer.sdk.array_words import ITEMS, with_bare_matrix
from gpulayer.sdk.describe import FUNCTION

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.servers import Elsewhere


class Described(click.Command):
    """A command's own options end at its first word; a function, `module:function`, has none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args = with_bare_matrix(args)
        rest = super().parse_args(ctx, list(args))
        given = list(ctx.params.get("command") or ())
        if len(given) > 1 and "--" not in words and FUNCTION.fullmatch(given[0]):
            ctx.allow_interspersed_args = True
            ctx.params.clear()
            rest = super().parse_args(ctx, words)
        return rest


@click.command("submit", cls=Described, context_settings={"allow_interspersed_args": False})
@starting_options
@options("file", "args", "kwargs", "dry_run", "json", "quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    command: tuple[str, ...],
    job_file: str | None,
    args: str | None,
    kwargs: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Queue a command (after --), a function (module:function), or a job file (-f)."""
    server = server_for(flags)
    spec = described(command, job_file, args, kwargs, flags, server)
    if dry_run:
        from gpulayer.cli.plan import show

        show(spec, words_of(spec), server, flags, as_json, quiet)
        return
    spec = carry.carry(spec, flags, server, is_talking=not (quiet or as_json))
    job = queue(spec, flags["idempotency_key"], server, refresh=flags["refresh"])
    if as_json:
        render.json_document({"job": job})
        return
    render.data(job["id"])
    if not quiet:
        followed = f"watch it: gpulayer logs -f {job['id']}"
        render.say(f"cached, from job {job['id']}" if job.get("cached") else followed)


def described(
    command: tuple[str, ...],
    job_file: str | None,
    args: str | None,
    kwargs: str | None,
    flags: Mapping[str, Any],
    server: Elsewhere | None,
) -> dict[str, Any]:
    """The spec of whichever of the three forms was used."""
    if job_file is not None:
        if command:
            raise UsageError(
                "usage",
                "give a job file or a command, not both",
                hint=f"gpulayer submit -f {shlex.quote(job_file)}",
            )
        _nothing_beside(job_file, {**flags, "args": args, "kwargs": kwargs})
        return read_job_file(job_file)
    if not command:
        raise UsageError("usage", "nothing to run", hint="gpulayer submit -- python train.py")
    if len(command) == 1 and FUNCTION.fullmatch(command[0]):
        return spec_from(function_workload(command[0], args, kwargs), flags, server)
    if FUNCTION.fullmatch(command[0]) and command[1] == ITEMS:
        raise UsageError(
            "usage",
            f"a function over items is a map, and {command[0]} would be run as a command",
            hint=shlex.join(["gpulayer", "map", *command]),
        )
    if args is not None or kwargs is not None:
        raise UsageError(
            "usage",
            "--args and --kwargs belong to a function, module:function",
            hint="gpulayer submit --args '[7]' train:main",
        )
    return spec_from({"kind": "command", "command": list(command)}, flags, server)


def read_job_file(name: str) -> dict[str, Any]:
    """A job file, validated whole: every fault at once, with its line. `-` is standard input."""
    from pathlib import Path

    from gpulayer.contracts.jobfile import validate_jobfile
    from gpulayer.contracts.jobspec import spec_to_json

    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise NotFoundError(
            "file-not-found", f"{name} cannot be read: {error.strerror}", hint="ls"
        ) from None
    except UnicodeDecodeError as error:
        raise SpecError(
            "invalid-file",
            f"{name} is not text: {error.reason} at byte {error.start}",
            hint="gpulayer schema",
        ) from None
    return spec_to_json(validate_jobfile(text, name))


def words_of(spec: Mapping[str, Any]) -> list[str]:
    """The words that a person would type for the workload."""
    workload = spec["workload"]
    if workload["kind"] == "command":
        return list(workload["command"])
    if workload["kind"] == "distributed" and workload.get("entrypoint"):
        return ["python", workload["entrypoint"], *workload.get("args", ())]
    return [str(workload.get("function") or workload.get("entrypoint"))]


def is_function(workload: Mapping[str, Any]) -> bool:
    return workload["kind"] == "function" or bool(workload.get("function"))


def line_of(spec: Mapping[str, Any]) -> list[str]:
    """The line that decides which Python is meant: a function runs on the terminal's."""
    return words_of(spec) if spec["workload"]["kind"] == "command" else ["python"]


def queue(
    spec: dict[str, Any],
    key: str | None = None,
    server: Elsewhere | None = None,
    beside: Mapping[str, Any] | None = None,
    *,
    refresh: bool = False,
) -> dict[str, Any]:
    """Submit a detached job: to `server`, or here with the world of this terminal. The job as its
    plane knows it. `beside` is added to its origin."""
    from gpulayer.clock import SystemIds

    wire = connect_to(server)
    key = key or SystemIds().token(26)
    if server is None:
        return queued_here(wire, spec, key, beside or {}, refresh=refresh)
    from gpulayer.sdk.far import far_origin

    body: dict[str, Any] = {"spec": spec, "idempotency_key": key}
    body["origin"] = far_origin(words_of(spec))
    if refresh:
        body["refresh"] = True
    return dict(wire.call("POST", "/v1/jobs", body))


def queued_here(
    wire: Wire,
    spec: dict[str, Any],
    key: str,
    beside: Mapping[str, Any],
    *,
    refresh: bool = False,
) -> dict[str, Any]:
    """The same for the plane of this machine, which is at the other end of `wire`."""
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_of
    from gpulayer.sdk.places import Places

    seen = world.of_terminal(line_of(spec))
    try:
        origin = origin_of(seen, words_of(spec)) | dict(beside)
        if is_function(spec["workload"]):
            origin["function"] = {"sys_path": [seen.envelope["cwd"]]}
        if spec.get("cache"):
            from gpulayer.sdk.calling import called

            origin |= called(spec, origin, is_far=False)
        body: dict[str, Any] = {"spec": spec, "idempotency_key": key, "origin": origin}
        if refresh:
            body["refresh"] = True
        with world.given(Places.find(), seen) as envelope:
            return dict(wire.call("POST", "/v1/jobs", body | {"envelope_id": envelope}))
    finally:
        seen.close()


def _nothing_beside(job_file: str, flags: Mapping[str, Any]) -> None:
    """The file says all of the job, so that no option is silently ignored. The key is not of it."""
    given = [
        FLAGS[name].names[-1]
        for name, value in flags.items()
        if value not in (None, (), False) and name != "idempotency_key"
    ]
    if given:
        raise UsageError(
            "usage",
            f"{given[0]} and a job file are two descriptions of one job",
            why="write it into the file; gpulayer schema lists its fields",
            hint=f"gpulayer submit -f {shlex.quote(job_file)}",
        )
