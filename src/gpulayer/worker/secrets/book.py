"""The list of what this machine's owner lets jobs have: a file of his own, read each time anew.

    {"hf_token": "env:HF_TOKEN", "wandb": "file:/home/ada/.wandb", "db": "command:pass show db"}

`gpulayer join --secret` and `gpulayer serve --secret` write it; an editor may too. No file is an
empty list: nothing is given that nobody allowed. `"*": "env:*"` allows every variable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping

from gpulayer.clock import Clock
from gpulayer.contracts.secret_names import ANY, offered
from gpulayer.errors import UsageError
from gpulayer.worker.secrets import commands
from gpulayer.worker.secrets.files import VALUE_BYTES, private_bytes, private_text
from gpulayer.worker.secrets.sources import Source, Unusable, source_of

Lookup = Callable[[str], str | None]
"""The value of a variable, where the job's own terminal has it."""


class Book:
    """Nothing is read by making one. Thread-safe."""

    def __init__(
        self,
        path: str,
        environ: Mapping[str, str],
        clock: Clock,
        seconds: float = commands.SECONDS,
    ) -> None:
        """`environ`: what `env:` means and commands are given. `seconds`: how long one may take."""
        self._path = path
        self._environ = environ
        self._clock = clock
        self._seconds = seconds

    def names(self) -> tuple[str, ...] | None:
        """What can be given now; None: the list cannot be read, so nobody knows."""
        try:
            found = self._sources()
        except Unusable:
            return None
        return tuple(sorted(name for name, source in found.items() if self._is_there(source)))

    def has_command(self, names: Iterable[str]) -> bool:
        """Whether one of these values is what a command prints."""
        try:
            found = self._sources()
        except Unusable:
            return False
        return any(name in found and found[name].kind == "command" for name in names)

    def value(
        self,
        name: str,
        *,
        terminal: Lookup = lambda variable: None,
        is_wanted: Callable[[], bool] = lambda: True,
        mark: str = "",
    ) -> str | None:
        """None: it is not on the list, or its variable is not set. Raises `Unusable`, and
        `TakenBackError` once it `is_wanted` no more. `mark` is no other run's."""
        found = self._sources()
        source = found.get(name)
        if source is None:
            source = Source("env", name) if ANY in found else None
        if source is None:
            return None
        if source.kind == "env":
            return terminal(source.where) or self._environ.get(source.where) or None
        if source.kind == "file":
            return private_text(source.where, "its file")
        return commands.printed(
            source.words, self._environ, self._clock, is_wanted, mark, self._seconds
        )

    def _is_there(self, source: Source) -> bool:
        if source.kind == "env":
            return source.where == ANY or bool(self._environ.get(source.where))
        return source.kind == "command" or os.path.exists(source.where)

    def _sources(self) -> dict[str, Source]:
        said = "the worker's list of secrets"
        if not os.path.lexists(self._path):
            return {}
        data = private_bytes(self._path, said)
        try:
            if len(data) > VALUE_BYTES:
                raise ValueError(f"it has more than {VALUE_BYTES} bytes")
            return sources_in(data)
        except (ValueError, RecursionError) as error:
            why = "it is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            raise Unusable("secret-unsafe", f"has no value: {said} is malformed", why) from None


def sources_in(data: bytes) -> dict[str, Source]:
    """Raises ValueError, which names the entry and never says what is behind it."""
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("it is not an object of names")
    try:
        offered(found)
    except UsageError as error:
        raise ValueError(error.message) from None
    sources = {}
    for name, text in found.items():
        try:
            sources[name] = source_of(text if isinstance(text, str) else "")
            if (name == ANY) != (sources[name] == Source("env", ANY)):
                raise ValueError(f"{ANY} and env:{ANY} belong together")
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return sources
