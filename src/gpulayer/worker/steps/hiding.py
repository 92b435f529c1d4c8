"""No value of a secret leaves the worker in what a function returned or raised, or in the name of
an output. The log was cleaned by the supervisor as it was written; this is the rest of an end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpulayer.contracts.messages import Exit

Clean = Callable[[list[str]], list[str] | None]
"""The same texts with each value of the task's secrets as `[redacted:NAME]`; None where nobody
knows the values any more."""

UNKNOWN = "not shown: the supervisor was restarted, so values of secrets in it cannot be found"


def without_secrets(end: Exit, clean: Clean) -> Exit:
    """`end` with clean texts. An output whose name holds a value is left out: under another name
    nobody would find it."""
    value = None if end.value is None else json.loads(end.value)
    paths = [str(output["path"]) for output in end.outputs]
    left = None if end.left is None else dict(end.left)
    parts: tuple[Any, ...] = (end.message, value, end.error, left, paths)
    texts = list(_texts(parts))
    cleaned = clean(texts)
    if cleaned is None:
        error = None if end.error is None else {"type": "Error", "message": UNKNOWN}
        return replace(end, value=None, error=error, outputs=(), left=None, message=UNKNOWN)
    message, value, error, left, shown = _rebuilt(parts, iter(cleaned))
    kept = tuple(o for o, path, name in zip(end.outputs, paths, shown, strict=True) if path == name)
    unkept = len(paths) - len(kept)
    if unkept:
        note = f"not kept as output: {unkept} with a secret in the name"
        message = "; ".join(part for part in (message, note) if part)
    return replace(
        end,
        message=message,
        value=None if end.value is None else json.dumps(value, separators=(",", ":")),
        error=error,
        left=left,
        outputs=kept,
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key)
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _rebuilt(value: Any, texts: Iterator[str]) -> Any:
    """The same shape with the next texts, in the order of `_texts`."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, Mapping):
        return {next(texts): _rebuilt(part, texts) for part in value.values()}
    if isinstance(value, list | tuple):
        return [_rebuilt(part, texts) for part in value]
    return value
