"""The entry point: finds the verb, runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from gpulayer import _version
from gpulayer.cli import render
from gpulayer.cli.table import VERBS, Verb
from gpulayer.errors import SLUGS, GPULayerError, UsageError

RUN_VERBS = frozenset({"run", "launch", "map", "wait"})
"""Their exit code is the workload's, so their own failures use 125 and up, as docker's do."""

_BY_NAME = {verb.name: verb for verb in VERBS}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit. The only place that calls `sys.exit`."""
    words = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in words if not word.startswith("-")), "")
    debug = bool(os.environ.get("GPULAYER_DEBUG")) or _takes_debug(words)
    try:
        code = cli.main(words, prog_name="gpulayer", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _reader_left()
    except click.ClickException as error:
        _fail(_usage(error), verb, words)
    except GPULayerError as error:
        if debug:
            raise
        _fail(error, verb, words)
    except Exception as error:
        if debug:
            raise
        fault = GPULayerError(
            "internal",
            f"{type(error).__name__}: {error}",
            hint=f"see where: GPULAYER_DEBUG=1 gpulayer {verb}",
        )
        _fail(fault, verb, words)


class Verbs(click.Group):
    """Knows every verb from the table and imports a module only for the verb that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [verb.name for verb in VERBS if verb.alias_of is None]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        verb = _BY_NAME.get(name)
        if verb is None:
            return None
        command = importlib.import_module(f"gpulayer.cli.{verb.module}").command
        assert isinstance(command, click.Command)
        command.short_help = verb.about
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _BY_NAME:
            raise _unknown_verb(args[0])
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("Run work on every machine you have, described once.\n")
        formatter.write("\nUsage: gpulayer VERB [options]\n")
        write_verbs(formatter, [verb for verb in VERBS if verb.alias_of is None])
        formatter.write("\nAll of a verb's options: gpulayer VERB --help\n")
        formatter.write("First steps: gpulayer run -- python your_script.py\n")


def write_verbs(formatter: click.HelpFormatter, verbs: Sequence[Verb]) -> None:
    """The verbs by group, in the order of the table."""
    for group in dict.fromkeys(verb.group for verb in verbs):
        formatter.write(f"\n{group}:\n")
        for verb in verbs:
            if verb.group == group:
                formatter.write(f"  {verb.name:<11} {verb.about}\n")


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version.__version__, "-V", "--version", message="gpulayer %(version)s")
@click.option("--debug", is_flag=True, hidden=True, help="Show where an error comes from.")
def cli(debug: bool) -> None:
    """Run work on every machine you have, described once."""


def _takes_debug(words: Sequence[str]) -> bool:
    return "--debug" in words[: next((i for i, w in enumerate(words) if w[:1] != "-"), None)]


def _unknown_verb(word: str) -> UsageError:
    near = difflib.get_close_matches(word, list(_BY_NAME), n=1)
    return UsageError(
        "usage",
        f"'{render.plain(word)}' is not a verb of gpulayer",
        hint=([f"gpulayer {near[0]} --help"] if near else []) + ["gpulayer --help"],
        why=f"did you mean '{near[0]}'?" if near else "",
    )


def _usage(error: click.ClickException) -> UsageError:
    ctx = getattr(error, "ctx", None)
    path: str = ctx.command_path if ctx is not None else "gpulayer"
    return UsageError("usage", error.format_message().rstrip("."), hint=f"{path} --help")


def _fail(error: GPULayerError, verb: str, words: Sequence[str]) -> None:
    before_command = words[: words.index("--")] if "--" in words else words
    if "--json" in before_command:
        render.json_document({"error": error.to_json()})
    else:
        render.error(error)
    slug = SLUGS.get(error.code, SLUGS["internal"])
    override: Any = error.details.get("exit")
    code = slug.run_exit if verb in RUN_VERBS else slug.exit
    sys.exit(int(override) if override is not None else code)


def _reader_left() -> None:
    """The reader of our output has gone: end as quietly as any program in a pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(141)
