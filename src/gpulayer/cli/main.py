"""The entry point: finds the verb, runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from gpulayer import _version
from gpulayer.cli import render
from gpulayer.cli.session import Asked, whole_line
from gpulayer.cli.table import LATER_FLAGS, OTHER_WORDS, VERBS, Verb
from gpulayer.errors import GPULayerError, RefusedError, StorageError, UsageError
from gpulayer.slugs import SLUGS

RUN_VERBS = frozenset({"run", "launch", "map", "wait", "exec", "shell"})
"""Their exit code is the workload's, so their own failures use 125 and up, as docker's do."""
INTERRUPTED, READER_LEFT = 130, 141
LIKE = 0.65
"""How alike a slip and an option are (difflib's ratio): `--gpu` and `--gpus`, `--mem` and
`--memory`, but not `--requirement` and `--quiet`."""

_BY_NAME = {verb.name: verb for verb in VERBS}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit. The only place that calls `sys.exit`."""
    words = list(sys.argv[1:] if argv is None else argv)
    asked = Asked(words, debug=bool(os.environ.get("GPULAYER_DEBUG")))
    render.prepare_streams()
    try:
        code = cli.main(words, prog_name="gpulayer", standalone_mode=False, obj=asked)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _reader_left()
    except click.ClickException as error:
        _fail(_usage(error, asked), asked)
    except GPULayerError as error:
        if asked.debug:
            raise
        _fail(error, asked)
    except Exception as error:
        if asked.debug:
            raise
        _fail(_internal(error, asked), asked)


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
        if not any(parameter.name == "debug" for parameter in command.params):
            command.params.append(_debug())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _BY_NAME:
            raise _unknown_verb(args[0])
        if ctx.obj is not None:
            ctx.obj.verb = args[0]
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"{cli.help}\n")
        formatter.write("\nUsage: gpulayer VERB [options]\n")
        write_verbs(formatter, [v for v in VERBS if v.alias_of is None and not v.rare])
        formatter.write(
            "\nOptions of a verb: gpulayer VERB --help   Everything: gpulayer help all\n"
        )
        formatter.write("First steps: gpulayer run -- python your_script.py\n")


def write_verbs(formatter: click.HelpFormatter, verbs: Sequence[Verb]) -> None:
    """The verbs by group, in the order of the table."""
    for group in dict.fromkeys(verb.group for verb in verbs):
        formatter.write(f"\n{group}:\n")
        for verb in verbs:
            if verb.group == group:
                formatter.write(f"  {verb.name:<11} {verb.about}\n")


def _debug() -> click.Option:
    """Taken before the verb and after it."""

    def note(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        asked = ctx.find_root().obj
        if wanted and asked is not None:
            asked.debug = True

    return click.Option(
        ["--debug"], is_flag=True, hidden=True, is_eager=True, expose_value=False, callback=note,
        help="Show where an error comes from.",
    )  # fmt: skip


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(_version.__version__, "-V", "--version", message="gpulayer %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run a command, a Python function or many of either as jobs, with nothing to set up."""
    if ctx.invoked_subcommand is None:
        render.data(ctx.get_help())


cli.params.append(_debug())


def _unknown_verb(word: str) -> UsageError:
    import difflib  # for a slip only

    other = OTHER_WORDS.get(word)
    near = [other] if other else difflib.get_close_matches(word, list(_BY_NAME), n=1)
    return UsageError(
        "usage",
        f"'{word}' is not a verb of gpulayer",
        hint=([f"gpulayer {near[0]} --help"] if near else []) + ["gpulayer --help"],
        why=f"did you mean '{near[0]}'?" if near else "",
    )


def _usage(error: click.ClickException, asked: Asked) -> GPULayerError:
    ctx = getattr(error, "ctx", None)
    path: str = ctx.command_path if ctx is not None else "gpulayer"
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(error, path, asked)
    message = " ".join(error.format_message().split()).rstrip(".")
    return UsageError("usage", message, hint=f"{path} --help")


def _unknown_option(error: click.NoSuchOption, path: str, asked: Asked) -> GPULayerError:
    name = error.option_name
    if name in LATER_FLAGS:
        why = "it is of a later one, and nothing of a job is silently ignored: leave it out"
        message = f"this version has no {name} yet"
        return RefusedError("not-yet", message, why=why, hint="gpulayer help not-yet")
    import difflib  # for a slip only

    words = {word.lstrip("-"): word for word in error.possibilities or ()}
    close = difflib.get_close_matches(name.lstrip("-"), words, n=1, cutoff=LIKE)
    near = [words[word] for word in close]
    mended = [
        near[0] + word.removeprefix(name) if near and word.partition("=")[0] == name else word
        for word in asked.words
    ]
    whole = near and not _lacks_its_value(error.ctx, near[0], mended)
    return UsageError(
        "usage",
        f"{path} has no option {name}",
        why=f"did you mean {near[0]}?" if near else "",
        hint=[*([shlex.join(["gpulayer", *mended])] if whole else []), f"{path} --help"],
    )


def _lacks_its_value(ctx: click.Context | None, name: str, words: Sequence[str]) -> bool:
    """That option takes a value, and there the command begins: no line to offer."""
    params = ctx.command.params if ctx is not None else ()
    takes = any(name in one.opts and not getattr(one, "is_flag", False) for one in params)
    return takes and (name, "--") in pairwise(words)


def _internal(error: Exception, asked: Asked) -> GPULayerError:
    """What no code foresaw. A stream that refuses what is written to it is the system's affair."""
    if isinstance(error, OSError) and error.errno in (5, 9, 28):
        why = error.strerror or str(error)
        return StorageError("disk-full" if error.errno == 28 else "disk-error", why)
    return GPULayerError(
        "internal",
        f"{type(error).__name__}: {error}",
        hint=f"gpulayer --debug {asked.verb or '--help'}",
    )


def _fail(error: GPULayerError, asked: Asked) -> None:
    error.help = tuple(whole_line(asked, hint) for hint in error.help)
    if asked.json or (isinstance(error, UsageError) and "--json" in asked.own_words()):
        render.json_document({"error": error.to_json()})
        sys.stdout.flush()
    else:
        render.error(error)
    slug = SLUGS.get(error.code, SLUGS["internal"])
    override: Any = error.details.get("exit")
    code = slug.run_exit if asked.verb in RUN_VERBS else slug.exit
    sys.exit(int(override) if override is not None else code)


def _reader_left() -> None:
    """The reader of our output has gone: end as quietly as any program in a pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(READER_LEFT)
