"""Where the value of a secret comes from, as an owner writes it: `env:NAME`, `file:PATH` or
`command:LINE`. A line is cut into words as a shell would cut it; no shell ever sees it.
"""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from gpulayer.contracts.secret_names import ANY, is_name

LIKE = "NAME, NAME=env:VARIABLE, NAME=file:PATH or NAME=command:LINE"
NONE = "none"
"""Instead of a list: no secret at all."""


class Unusable(Exception):
    """There is no value. `what` goes on from the secret's name: `has no value: ...`."""

    def __init__(
        self, slug: str, what: str, why: str = "", hint: str | tuple[str, ...] = ()
    ) -> None:
        super().__init__(what)
        self.slug, self.what, self.why, self.hint = slug, what, why, hint


class Source(NamedTuple):
    kind: str
    """`env`, `file` or `command`."""
    where: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}"

    @property
    def words(self) -> list[str]:
        """Of a command."""
        return shlex.split(self.where)


def source_of(text: str) -> Source:
    """Raises ValueError, which says what is wrong and never the text itself."""
    kind, colon, where = text.partition(":")
    if kind not in ("env", "file", "command") or not colon:
        raise ValueError("it begins with none of env:, file: and command:")
    if "\0" in where:
        raise ValueError("it has a zero byte in it")
    if kind == "env" and where != ANY and not is_name(where):
        raise ValueError("what follows env: is not a variable's name that a job may have")
    if kind == "file" and not os.path.isabs(where):
        raise ValueError("what follows file: is not an absolute path")
    if kind == "command":
        try:
            words = shlex.split(where)
        except ValueError as error:
            raise ValueError(f"its command cannot be cut into words: {error}") from None
        if not words:
            raise ValueError("its command is empty")
    return Source(kind, where)
