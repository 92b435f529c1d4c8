"""What was typed, how a verb reaches its plane, and the options that many verbs share."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpulayer.cli import render
from gpulayer.cli.table import FLAGS, Flag
from gpulayer.sdk.describe import FUNCTION

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.servers import Elsewhere, Server

Command = TypeVar("Command", bound=Callable[..., Any])


class Asked:
    """The words of this call, and what they ask of every verb."""

    def __init__(self, words: Sequence[str], *, debug: bool = False) -> None:
        self.words = list(words)
        self.debug = debug
        self.json = False
        self.verb = ""

    def own_words(self) -> list[str]:
        """Without those of the command that is to be run."""
        return self.words[: self.words.index("--")] if "--" in self.words else self.words


def connect() -> Wire:
    """A connection to the plane that this terminal means. Of a server that is away while something
    is waited for there, a word is said."""
    server = chosen()
    if server is None:
        return connect_to(None)
    return server.wire(lambda lost: render.say(f"{lost.where} does not answer; waiting for it"))


def connect_to(server: Elsewhere | None) -> Wire:
    """A connection to `server`; None: to the local plane, which is started when there is none."""
    from gpulayer.sdk.places import Places

    if server is not None:
        return server.wire()
    from gpulayer.sdk.local import ensure_plane

    places = Places.find()
    wire = ensure_plane(places)
    if places.notice:
        notice = places.say_once()
        if notice:
            render.say(f"note: {notice}")
    return wire


def chosen() -> Server | None:
    """The server that this terminal means; None: the local plane."""
    from gpulayer.sdk import servers
    from gpulayer.sdk.places import Places

    return servers.chosen(Places.find().home)


def options(*names: str) -> Callable[[Command], Command]:
    """The options of those names, from the one table, in the given order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            flag = FLAGS[name]
            parameter = _PYTHON_NAMES.get(name, name)
            settings = dict(flag.settings)
            settings.setdefault("default", None if "is_flag" not in settings else False)
            if settings.get("multiple"):
                settings["default"] = ()
            if flag.advanced:
                settings["hidden"] = True
            if name == "json":
                settings |= {"is_eager": True, "callback": _wants_json}
            command = click.option(*flag.names, parameter, help=flag.about, **settings)(command)
        return command

    return decorate


def whole_line(asked: Asked, hint: str) -> str:
    """A hint that names one option alone (`--timeout 2h`) as the whole line with that option."""
    if not hint.startswith("--") or not asked.verb:
        return hint
    name, *value = shlex.split(hint)
    flag = next((flag for flag in FLAGS.values() if name in flag.names), None)
    if flag is None:
        return hint
    return shlex.join(["gpulayer", *_with_option(asked.words, flag, [name, *value], asked.verb)])


def _with_option(words: Sequence[str], flag: Flag, instead: Sequence[str], verb: str) -> list[str]:
    """The words with that flag as it should be, after the verb's own options. What follows them is
    the command and stays as it is; a function has options on both sides."""
    at = words.index(verb) + 1
    kept, rest = [], list(words[at:])
    while rest and rest[0] != "--":
        if not rest[0].startswith("-"):
            if verb == "run" or not FUNCTION.fullmatch(rest[0]):
                break
            kept.append(rest.pop(0))
            continue
        name, equals, _ = rest[0].partition("=")
        known = next((f for f in FLAGS.values() if name in f.names), None)
        takes = known is not None and "is_flag" not in known.settings and not equals
        piece, rest = rest[: 1 + takes], rest[1 + takes :]
        if name not in flag.names:
            kept += piece
    return [*words[:at], *kept, *instead, *rest]


def _wants_json(ctx: click.Context, _: click.Parameter, wanted: bool) -> bool:
    asked = ctx.find_root().obj
    if asked is not None:
        asked.json = asked.json or wanted
    return wanted


_PYTHON_NAMES = {"json": "as_json", "all": "everything", "file": "job_file", "wait_for": "timeout"}
"""Flags whose names are builtins of Python, or that mean something else in another verb."""
