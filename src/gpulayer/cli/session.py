"""How a verb reaches its plane, and the options that many verbs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import click

from gpulayer.api.wire import Wire
from gpulayer.cli.table import FLAGS

Command = TypeVar("Command", bound=Callable[..., Any])


def connect() -> Wire:
    """A connection to the caller's plane; the local one is started when there is none."""
    from gpulayer.sdk.local import ensure_plane
    from gpulayer.sdk.places import Places

    return ensure_plane(Places.find())


def job_path(selector: str, rest: str = "", **query: Any) -> str:
    """`/v1/jobs/SELECTOR/rest?query`, with everything quoted and empty values left out."""
    text = urlencode({key: value for key, value in query.items() if value not in (None, "")})
    tail = f"/{rest}" if rest else ""
    return f"/v1/jobs/{quote(selector, safe='')}{tail}" + (f"?{text}" if text else "")


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
            command = click.option(*flag.names, parameter, help=flag.about, **settings)(command)
        return command

    return decorate


_PYTHON_NAMES = {"json": "as_json", "all": "everything", "file": "job_file"}
"""Flags whose names are builtins of Python."""
