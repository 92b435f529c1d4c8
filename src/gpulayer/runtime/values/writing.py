"""A value as JSON: `encode`. The standard library's types are in `standard`, arrays in
`blobs`."""

from __future__ import annotations

import json
import math
import sys

from . import limits
from .limits import KEY, NotPortable, TooLarge, not_finite, to_base64
from .naming import Classes, is_made_of_python
from .standard import tag_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, BinaryIO


class Sink:
    """Where the large parts of values go. This one takes none."""

    def store(self, ending: str, write: Callable[[BinaryIO], object], key: object = None) -> str:
        """Have `write` fill a new file; its name, or nothing where there are too many. The same
        `key` may be the same file again."""
        raise NotPortable("is too large to stand in the job itself", "write it to a file")

    def pack(self, write: Callable[[BinaryIO], object]) -> dict[str, Any]:
        """Have `write` append to the file that small parts share: {file, at, size}."""
        return {"file": self.store("bin", write)}


class Written:
    """A value as it travels."""

    def __init__(self, wire: Any, text: str) -> None:
        self.wire = wire
        """What stands in the job."""
        self.text = text
        """The same as JSON text."""


def encode(
    value: Any,
    classes: Classes,
    sink: Sink,
    *,
    inline: int = limits.TEXT_BYTES,
    depth: int = limits.MAX_DEPTH,
) -> Written:
    """Raises NotPortable, TooLarge. More than `inline` bytes of JSON go to a file of the sink, and
    what would be nested deeper than `depth` travels as text."""
    writer = Writer(classes, sink)
    try:
        tagged = writer.write(value, 0)
        if not writer.is_tagged and not (type(value) is dict and KEY in value):
            wire = value
        else:
            wire = {KEY: limits.VERSION, "value": tagged}
        text = json.dumps(wire, allow_nan=False, separators=(",", ":"))
        if writer.levels * (1 if wire is value else _LEVELS_OF_A_TAG) > depth:
            wire = {KEY: limits.VERSION, "text": json.dumps(tagged, separators=(",", ":"))}
            text = json.dumps(wire, separators=(",", ":"))
    except RecursionError:
        raise NotPortable("is nested too deeply to be read here", "use a flatter value") from None
    if len(text) <= inline:
        return Written(wire, text)
    if len(text) > limits.TEXT_BYTES:
        raise TooLarge(
            "has {} bytes as JSON; {} are allowed".format(len(text), limits.TEXT_BYTES),
            "write it to a file in GPULAYER_OUTPUT_DIR, or use a numpy array",
        )
    body = json.dumps(tagged, separators=(",", ":")).encode("ascii")
    wire = {KEY: limits.VERSION, "file": sink.store("json", lambda file: file.write(body))}
    return Written(wire, json.dumps(wire, separators=(",", ":")))


_LEVELS_OF_A_TAG = 3
"""At most: the object, a list, and a pair in it."""


class Writer:
    """Writes one value."""

    def __init__(self, classes: Classes, sink: Sink) -> None:
        self.classes = classes
        self.sink = sink
        self.is_tagged = False
        """Whether anything in it is not plain JSON."""
        self.levels = 0
        """Parts inside each other, so far."""
        self._parts = 0
        self._above: set[int] = set()

    def write(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return value if value.isascii() else self._text(value)
        if kind is int:
            if value.bit_length() <= limits.MAX_INT_BITS:
                return value
            return self.tag("int", "{:x}".format(value))
        if kind is float:
            if math.isfinite(value):
                return value
            raise not_finite(value)
        self._enter(value, depth)
        made: Any
        if kind is list:
            made = self.items(value, depth)
        elif kind is dict:
            made = self._dict(value, depth)
        else:
            made = self._other(value, kind, depth)
        self._above.discard(id(value))
        return made

    def tag(self, name: str, value: Any) -> dict[str, Any]:
        self.is_tagged = True
        return {"$" + name: value}

    def _enter(self, value: Any, depth: int) -> None:
        if depth >= limits.MAX_DEPTH or id(value) in self._above:
            raise NotPortable("is nested too deeply or holds itself", "use a flatter value")
        self._above.add(id(value))
        if depth >= self.levels:
            self.levels = depth + 1

    def _count(self, value: Any) -> None:
        self._parts += len(value)
        if self._parts > limits.MAX_PARTS:
            raise TooLarge(
                "makes more than {} parts, shared ones counted each time".format(limits.MAX_PARTS),
                "use a numpy array, or write it to a file",
            )

    def _text(self, value: str) -> Any:
        try:
            value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON would join or lose
            return self.tag("str", to_base64(value.encode("utf-8", "surrogatepass")))
        return value

    def items(self, value: Iterable[Any], depth: int) -> list[Any]:
        self._count(value)
        made: list[Any] = []
        try:
            for item in value:
                made.append(self.write(item, depth + 1))  # noqa: PERF401 - its length is the place
        except NotPortable as error:
            error.parts.append("[{}]".format(len(made)))
            raise
        return made

    def _dict(self, value: dict[Any, Any], depth: int) -> Any:
        for key in value:
            if type(key) is not str or key[:1] == "$" or not (key.isascii() or _is_text(key)):
                return self.pairs("dict", value, depth)
        self._count(value)
        made = {}
        for key, item in value.items():
            try:
                made[key] = self.write(item, depth + 1)
            except NotPortable as error:
                error.parts.append("[{!r}]".format(key))
                raise
        return made

    def pairs(self, name: str, value: dict[Any, Any], depth: int) -> Any:
        self._count(value)
        if name != "dict" or not all(type(key) is str and _is_text(key) for key in value):
            self.is_tagged = True
        made = []
        for key, item in value.items():
            try:
                wire = self.write(key, depth + 1)
            except NotPortable as error:
                error.problem = "has the key {}, which {}".format(_shown(key), error.problem)
                error.parts = []
                raise
            try:
                made.append([wire, self.write(item, depth + 1)])
            except NotPortable as error:
                error.parts.append("[{}]".format(_shown(key)))
                raise
        return {"$" + name: made}

    def _other(self, value: Any, kind: type, depth: int) -> Any:
        if depth >= limits.MAX_TAG_DEPTH:
            raise NotPortable("is nested too deeply", "use a flatter value")
        write = tag_of(kind)
        if write is not None:
            return write(self, value, depth)
        if issubclass(kind, sys.modules["enum"].Enum):
            return self._member(value, kind)
        if "__dataclass_fields__" in vars(kind):
            return self._dataclass(value, kind, depth)
        if kind.__module__.partition(".")[0] in ("numpy", "torch", "pyarrow"):
            from . import blobs

            return blobs.write(self, value, kind)
        raise NotPortable("is a {}".format(kind_name(kind)), _mend(kind))

    def _member(self, value: Any, kind: type) -> Any:
        if kind.__members__.get(value._name_) is not value:  # type: ignore[attr-defined]
            raise NotPortable("is no single member of its enum", "send its value")
        return self.tag("enum", [self.classes.name_of(kind), value._name_])

    def _dataclass(self, value: Any, kind: type, depth: int) -> Any:
        name = self.classes.name_of(kind)
        fields = [field.name for field in sys.modules["dataclasses"].fields(kind)]
        if not is_made_of_python(kind):
            raise NotPortable("is a dataclass and a builtin type at once", "send its fields")
        if vars(object)["__eq__"] is getattr(kind, "__eq__", None):
            raise NotPortable("is a dataclass that is equal to itself alone", "leave out eq=False")
        if set(getattr(value, "__dict__", ())) - set(fields):
            raise NotPortable("has attributes that are no fields", "declare them as fields")
        made = {}
        self._count(fields)
        for field in fields:
            if not hasattr(value, field):
                raise NotPortable("has no value for its field " + field, "give it one")
            try:
                made[field] = self.write(getattr(value, field), depth + 1)
            except NotPortable as error:
                error.parts.append("." + field)
                raise
        return self.tag("dataclass", [name, made])


# --- words ------------------------------------------------------------------------------------


def kind_name(kind: type) -> str:
    if kind.__module__ == "builtins":
        return kind.__name__
    return "{}.{}".format(kind.__module__, kind.__qualname__)


def _mend(kind: type) -> str:
    for base in kind.__mro__[1:]:
        if base in (list, dict, tuple, set, str, int, float, bytes) or tag_of(base):
            return "send a plain {} of it".format(base.__name__)
    if kind.__module__.startswith("pandas"):
        return "send pyarrow.Table.from_pandas(...) of it"
    return "make a dataclass of it, or write it to a file in GPULAYER_OUTPUT_DIR"


def _shown(key: Any) -> str:
    try:
        text = repr(key)
    except Exception:
        text = "a " + kind_name(type(key))
    return text if len(text) <= 60 else text[:57] + "..."


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
