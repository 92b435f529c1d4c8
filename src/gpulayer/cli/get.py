"""`gpulayer get JOB|ARTIFACT [PATH]`: bring files home."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import click

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.errors import NotFoundError, RefusedError, UsageError

ADDRESS = "artifact://sha256/"
STDOUT = Path("-")


class Wanted(NamedTuple):
    digest: str
    target: Path
    executable: bool


@click.command("get")
@click.argument("what")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@options("json", "quiet")
def command(what: str, path: Path | None, as_json: bool, quiet: bool) -> None:
    """Fetch what a job left in its output folder, one file of it (JOB:FILE), or an artifact.

    Without PATH, a job's files go to a folder named after the job. One file goes into a PATH that
    is a folder, and to standard output where PATH is -. Nothing is overwritten.
    """
    wire = connect()
    if what.startswith(ADDRESS):
        digest = what.removeprefix(ADDRESS)
        wanted = [Wanted(digest, _place(digest[:12], path), executable=False)]
    else:
        wanted = _of_job(wire, what, path)
    if path == STDOUT:
        _print(wire, what, wanted)
        return
    for one in wanted:
        if os.path.lexists(one.target):
            taken = one.target if ":" in what else path or Path(one.target.parts[0])
            elsewhere = shlex.join([what, f"{taken}-2"])
            raise RefusedError(
                "already-there",
                f"{one.target} exists already",
                why="nothing is overwritten, so nothing was fetched",
                hint=f"gpulayer get {elsewhere}",
            )
    for one in wanted:
        _fetch(wire, one)
    if as_json:
        render.json_document({"files": [str(one.target) for one in wanted]})
    elif not quiet:
        for one in wanted:
            render.data(render.plain(one.target))


def _print(wire: Wire, what: str, wanted: Sequence[Wanted]) -> None:
    if len(wanted) > 1:
        raise UsageError(
            "usage",
            f"{what} has {len(wanted)} files, and standard output takes one",
            hint=f"gpulayer get {shlex.quote(what)}",
        )
    data = wire.request("GET", f"/v1/artifacts/sha256/{wanted[0].digest}").data
    sys.stdout.buffer.write(data)


def _place(name: str, path: Path | None) -> Path:
    """Where one file goes: under its own name, into a folder, or as PATH says."""
    if path is None or path.is_dir():
        return (path or Path()) / name
    return path


def _fetch(wire: Wire, wanted: Wanted) -> None:
    """Write one artifact to a new file. An existing file is never touched."""
    reply = wire.request("GET", f"/v1/artifacts/sha256/{wanted.digest}")
    wanted.target.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o777 if wanted.executable else 0o666
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(wanted.target, flags, mode), "wb") as sink:
        sink.write(reply.data)


def _of_job(wire: Wire, what: str, path: Path | None) -> list[Wanted]:
    selector, _, name = what.partition(":")
    job = wire.call("GET", job_path(selector))
    outputs: Sequence[Mapping[str, Any]] = job.get("outputs") or ()
    if name:
        outputs = [output for output in outputs if output["path"] == name]
    if not outputs:
        raise NotFoundError(
            "artifact-not-found",
            f"{job['id']} left no file '{name}'" if name else f"{job['id']} left no files",
            why="only files written to $GPULAYER_OUTPUT_DIR are kept",
            hint=f"gpulayer status {job['id']}",
            job_id=job["id"],
        )
    folder = path or Path(job["id"])
    return [
        Wanted(
            output["digest"],
            _place(PurePosixPath(name).name, path) if name else folder / _inside(output["path"]),
            bool(output.get("executable")),
        )
        for output in outputs
    ]


def _inside(name: str) -> PurePosixPath:
    """A path that stays in the folder, whatever the worker said."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise RefusedError("unsafe-path", f"the output {name!r} leaves its folder")
    return path
