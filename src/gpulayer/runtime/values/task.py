"""The values of one call where it runs: arguments from its inputs, the result to its outputs."""

from __future__ import annotations

import os

from .calls import Opened
from .first import Initialized
from .folder import FOLDER, FolderSink, FolderSource
from .limits import NotPortable, TooLarge, Unreadable
from .naming import Classes
from .reading import decode
from .writing import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any


class Refused(Exception):
    """`slug` names the error, as `gpulayer help` does."""

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug


class TaskValues:
    """`module` holds the function, and is called `name` where the call was written."""

    def __init__(self, name: str, module: types.ModuleType | None) -> None:
        self._classes = Classes(name, module, imports=True)
        self._calls = Opened()
        self._initialized = Initialized(name, module)

    def arguments(
        self, args: list[Any], kwargs: dict[str, Any], inputs: str
    ) -> tuple[list[Any], dict[str, Any]]:
        """Raises Refused, and what an initializer does. `inputs`: the job's input folder."""
        source = FolderSource(os.path.join(inputs, FOLDER))
        try:
            args = self._initialized.rest(
                args, lambda place, wire: self._argument(place, wire, source)
            )
            args = self._calls.arguments(args, source, inputs)
        except Unreadable as error:
            raise Refused(
                "value-not-portable", "its item cannot be read: {}".format(error)
            ) from None
        return (
            [self._argument("args[{}]".format(at), args[at], source) for at in range(len(args))],
            {
                name: self._argument("kwargs[{!r}]".format(name), value, source)
                for name, value in kwargs.items()
            },
        )

    def _argument(self, place: str, value: Any, source: FolderSource) -> Any:
        try:
            return decode(value, self._classes, source)
        except Unreadable as error:
            slug = "function-not-importable" if error.lacks else "value-not-portable"
            raise Refused(slug, "{} cannot be read: {}".format(place, error)) from None

    def result(self, value: Any, outputs: str, prefix: str, inline: int) -> str:
        """Its JSON; where that would be longer than `inline`, that of what stands for it. Raises
        Refused. `outputs`: the job's output folder; `prefix` begins the names of files there."""
        sink = FolderSink(os.path.join(outputs, FOLDER), prefix)
        try:
            return encode(value, self._classes, sink, inline=inline).text
        except NotPortable as error:
            sink.discard()
            slug = "too-large" if isinstance(error, TooLarge) else "result-not-json"
            raise Refused(slug, "{}: {}".format(error.at("result"), error.mend)) from None
