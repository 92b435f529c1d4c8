"""`gpulayer get JOB|ARTIFACT [PATH]`: bring files home."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.session import connect, job_path, options
from gpulayer.errors import NotFoundError, RefusedError

ADDRESS = "artifact://sha256/"


@click.command("get")
@click.argument("what")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@options("json", "quiet")
def command(what: str, path: Path | None, as_json: bool, quiet: bool) -> None:
    """Fetch what a job left in its output folder, one file of it (JOB:FILE), or an artifact.

    Without PATH, a job's files go to a folder named after the job. Nothing is overwritten.
    """
    wire = connect()
    if what.startswith(ADDRESS):
        digest = what.removeprefix(ADDRESS)
        wanted = [(digest, path or Path(digest[:12]), False)]
    else:
        wanted = _of_job(wire, what, path)
    for digest, target, executable in wanted:
        fetch(wire, digest, target, executable)
    if as_json:
        render.json_document({"files": [str(target) for _, target, _ in wanted]})
    else:
        for _, target, _ in wanted:
            render.data(str(target))


def fetch(wire: Wire, digest: str, target: Path, executable: bool = False) -> None:
    """Write one artifact to a new file. An existing file is never touched."""
    if target.exists():
        raise RefusedError(
            "not-allowed", f"{target} exists already", hint="gpulayer get JOB another-folder"
        )
    reply = wire.request("GET", f"/v1/artifacts/sha256/{digest}")
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o777 if executable else 0o666
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as sink:
        sink.write(reply.data)


def _of_job(wire: Wire, what: str, path: Path | None) -> list[tuple[str, Path, bool]]:
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
    if name:
        return [(outputs[0]["digest"], path or Path(PurePosixPath(name).name), False)]
    folder = path or Path(job["id"])
    return [(o["digest"], folder / o["path"], bool(o.get("executable"))) for o in outputs]
