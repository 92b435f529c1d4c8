"""`gpulayer get JOB|ARTIFACT [PATH]`: bring files home."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import NotFoundError, RefusedError, UsageError
from gpulayer.sdk.fetching import Wanted, copy, fetch, inside

STDOUT = Path("-")
_IN_MEMORY = 8 << 20


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
        wanted = [Wanted(digest, _place(digest[:12], path))]
    else:
        selector, _, name = what.partition(":")
        wanted = _of_job(wire.call("GET", job_path(selector)), name, path)
    if path == STDOUT:
        _print(wire, what, wanted)
        return
    try:
        fetch(wire, wanted)
    except RefusedError as error:
        if error.code == "already-there":
            taken = wanted[0].target if ":" in what else path or Path(wanted[0].target.parts[0])
            error.help = (f"gpulayer get {shlex.join([what, f'{taken}-2'])}",)
        raise
    if as_json:
        render.json_document({"files": [str(one.target) for one in wanted]})
    elif not quiet:
        for one in wanted:
            render.data(render.plain(one.target))


def fetch_job(wire: Wire, job: Mapping[str, Any], folder: Path | None) -> list[Path]:
    """All that an ended job left, into `folder` or into one that is called as the job is."""
    wanted = _of_job(job, "", folder)
    fetch(wire, wanted)
    return [one.target for one in wanted]


def _print(wire: Wire, what: str, wanted: Sequence[Wanted]) -> None:
    if len(wanted) > 1:
        raise UsageError(
            "usage",
            f"{what} has {len(wanted)} files, and standard output takes one",
            hint=f"gpulayer get {shlex.quote(what)}",
        )
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as whole:  # nothing is shown before it is sound
        copy(wire, wanted[0].digest, whole)  # type: ignore[arg-type]
        whole.seek(0)
        shutil.copyfileobj(whole, sys.stdout.buffer)


def _place(name: str, path: Path | None) -> Path:
    """Where one file goes: under its own name, into a folder, or as PATH says."""
    if path is None or path.is_dir():
        return (path or Path()) / name
    return path


def _of_job(job: Mapping[str, Any], name: str, path: Path | None) -> list[Wanted]:
    outputs: Sequence[Mapping[str, Any]] = job.get("outputs") or ()
    if name:
        outputs = [output for output in outputs if output["path"] == name]
    if not outputs and job["finished_at"] is None:
        raise RefusedError(
            "job-not-finished",
            f"{job['id']} has not ended yet, and what it leaves comes at its end",
            hint=f"gpulayer wait {job['id']}",
            job_id=job["id"],
        )
    if not outputs:
        raise NotFoundError(
            "artifact-not-found",
            f"{job['id']} left no file '{name}'" if name else f"{job['id']} left no files",
            why="what is kept is what was written to $GPULAYER_OUTPUT_DIR or named by --output",
            hint=f"gpulayer status {job['id']}",
            job_id=job["id"],
        )
    folder = path or Path(job["id"])
    return [
        Wanted(
            output["digest"],
            _place(PurePosixPath(name).name, path) if name else inside(folder, output["path"]),
            bool(output.get("executable")),
        )
        for output in outputs
    ]
