"""What a machine offers to jobs, as `join` and `serve` are told it: data sets and secrets."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator

from gpulayer.errors import NotFoundError, UsageError


def data_sets(asked: Iterable[str], verb: str) -> dict[str, str] | None:
    """Of `--data NAME=PATH`, each with the whole path of something that is there. None: nothing
    was said."""
    return dict(_data_sets(asked, verb)) or None


def secrets(asked: Iterable[str], verb: str) -> dict[str, str] | None:
    """Of `--secret NAME[=SOURCE]`, each with the source of a value that is there, as far as that
    can be seen without asking for it. None: nothing was said."""
    from gpulayer.worker.secrets.sources import NONE

    texts = list(asked)
    if texts == [NONE]:
        return {}
    return dict(_secret(text, verb) for text in texts) or None


def _secret(text: str, verb: str) -> tuple[str, str]:
    from gpulayer.contracts.secret_names import ANY, is_name
    from gpulayer.worker.secrets.sources import LIKE, source_of

    name, equals, said = text.partition("=")
    if name != ANY and not is_name(name):
        raise _wrong(verb, "--secret: that is no name that a secret can have", f"write {LIKE}")
    try:
        source = source_of(_whole(said) if equals else f"env:{name}")
        if (name == ANY) != (source.where == ANY):
            raise ValueError(f"{ANY} stands alone: every variable of this terminal")
    except ValueError as error:
        raise _wrong(verb, f"--secret {name}: {error}", f"write {LIKE}") from None
    _require_there(name, source.kind, source.where)
    return name, str(source)


def _whole(said: str) -> str:
    """With the whole path of a file."""
    kind, colon, where = said.partition(":")
    if kind == "file" and colon and where:
        where = os.path.abspath(os.path.expanduser(where))
    return kind + colon + where


def _require_there(name: str, kind: str, where: str) -> None:
    from gpulayer.contracts.secret_names import ANY
    from gpulayer.errors import PreparationError
    from gpulayer.worker.secrets.files import private_text
    from gpulayer.worker.secrets.sources import Unusable

    if kind == "env" and where != ANY and not os.environ.get(where):
        raise PreparationError(
            "secret-missing",
            f"the secret {name} has no value: {where} is not set in this terminal",
            hint=f"read -rs {where}; export {where}",
        )
    if kind == "file":
        try:
            private_text(where, where)
        except Unusable as error:
            raise PreparationError(
                error.slug, f"the secret {name} {error.what}", why=error.why, hint=error.hint
            ) from None


def _data_sets(asked: Iterable[str], verb: str) -> Iterator[tuple[str, str]]:
    from gpulayer.contracts.data_sets import is_name, variable

    seen: dict[str, str] = {}
    for text in asked:
        name, equals, given = text.partition("=")
        if not equals or not is_name(name):
            what = f"--data: {text!r} is not NAME=PATH"
            raise _wrong(verb, what, "a name has 1 to 63 letters, digits, _ . -")
        if earlier := seen.get(variable(name)):
            what = f"--data: {earlier} and {name} would be in one variable, {variable(name)}"
            raise _wrong(verb, what, "")
        seen[variable(name)] = name
        path = os.path.abspath(os.path.expanduser(given))
        if not given or not path.isprintable():
            what = f"--data: {given!r} is no path that can be told to a job"
            raise _wrong(verb, what, "it is empty, or has characters that cannot be printed")
        if not os.access(path, os.R_OK):
            raise NotFoundError(
                "file-not-found",
                f"--data: {path} is not there, or cannot be read",
                hint=f"ls -ld {shlex.quote(path)}",
            )
        yield name, path


def _wrong(verb: str, what: str, why: str) -> UsageError:
    return UsageError("usage", what, why=why, hint=f"gpulayer {verb} --help")
