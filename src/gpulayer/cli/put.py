"""`gpulayer put FILE`: store a file as an artifact, named by its content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from gpulayer.api.transfers import upload
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.errors import NotFoundError


@click.command("put")
@click.argument("file", type=click.Path(path_type=Path))
@options("json", "quiet")
def command(file: Path, as_json: bool, quiet: bool) -> None:
    """Store a file as an artifact and print its address."""
    if not file.is_file():
        kind = "is a folder" if file.is_dir() else "does not exist"
        raise NotFoundError("file-not-found", f"{file} {kind}", hint="gpulayer put FILE")
    with file.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
        size = source.tell()
        upload(connect(), digest, source, size)
    address = f"artifact://sha256/{digest}"
    if as_json:
        render.json_document({"artifact": address, "size": size})
    else:
        render.data(address)
        if not quiet:
            render.say(f"stored {render.size(size)}")
