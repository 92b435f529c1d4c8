"""Whether a line that a message offers can be pasted: it parses as what it claims to be."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import shlex

import click

from gpulayer.cli.flags import spec_from
from gpulayer.cli.table import VERBS
from gpulayer.errors import GPULayerError

SHELL = frozenset("aws cd chmod curl df docker echo export kill ls mkdir".split()) | frozenset(
    "mv pip podman python read sed tar unset".split()
)
"""Other programs that a message may name."""
STARTING = ("run", "submit", "plan")


def refusal(line: str) -> str:
    """Why the line cannot be pasted; empty when it can."""
    if line.startswith("gl."):
        try:
            ast.parse(line)
        except SyntaxError as error:
            return f"not Python: {error}"
        return ""
    try:
        words = shlex.split(line)
    except ValueError as error:
        return f"not a shell line: {error}"
    if not words:
        return "nothing to paste"
    if words[0] in SHELL:
        return ""
    if words[0] != "gpulayer":
        return f"{words[0]} is no command that messages may name"
    return _refused_by_us(words[1:])


def _refused_by_us(words: list[str]) -> str:
    if words[:1] == ["--debug"]:
        del words[0]
    if words in (["--help"], ["--version"]):
        return ""
    verb = next((verb for verb in VERBS if words[:1] == [verb.name]), None)
    if verb is None:
        return f"{words[:1]} is no verb"
    command = importlib.import_module(f"gpulayer.cli.{verb.module}").command
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            ctx = command.make_context(verb.name, words[1:])
        if verb.name in STARTING and ctx.params["command"]:
            spec_from({"kind": "command", "command": list(ctx.params["command"])}, ctx.params)
    except click.exceptions.Exit:
        return ""  # --help ends there
    except (click.ClickException, GPULayerError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
