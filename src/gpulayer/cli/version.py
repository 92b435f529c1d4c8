"""`gpulayer version`."""

from __future__ import annotations

import platform

import click

from gpulayer import _version
from gpulayer.cli import render
from gpulayer.cli.session import options


@click.command("version")
@options("json", "quiet")
def command(as_json: bool, quiet: bool) -> None:
    """Print the version; with -q the number alone."""
    if as_json:
        python = platform.python_version()
        render.json_document(
            {"version": _version.__version__, "wire": _version.WIRE, "python": python}
        )
    else:
        render.data(_version.__version__ if quiet else f"gpulayer {_version.__version__}")
