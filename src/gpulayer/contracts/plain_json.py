"""Whether a value is plain JSON: what it is here is what it will be where the job runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import InitErrorDetails

from gpulayer.contracts import limits
from gpulayer.contracts.base import fault, refuse_all


def json_faults(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[InitErrorDetails]:
    """What in the value is not plain JSON: other types, keys that are not text, NaN, infinity,
    text that is not UTF-8, cycles and nesting past `limits.JSON_DEPTH`. Tuples are refused too:
    they would come back as lists."""
    if value is None or isinstance(value, bool | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            yield fault(at, None, f"is {value}, which JSON cannot say", "send null or a number")
    elif isinstance(value, str):
        if not _is_utf8(value):
            yield fault(at, None, "is not valid text (a lone surrogate)", "write it as UTF-8")
    elif len(at) >= limits.JSON_DEPTH and isinstance(value, list | dict):
        yield fault(
            at[:4],
            None,
            f"is nested deeper than {limits.JSON_DEPTH} levels",
            "flatten it, or send it as a file",
        )
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from json_faults(item, (*at, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or not _is_utf8(key):
                yield fault(at, None, f"has a key that is not text: {key!a:.40}", "quote the key")
            else:
                yield from json_faults(item, (*at, key))
    else:
        yield fault(
            at,
            None,
            f"is a {type(value).__name__}, which is not plain JSON",
            "convert it to numbers, text, lists and objects, or send it as a file",
        )


def check_json(value: Any) -> Any:
    refuse_all(json_faults(value))
    return value


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


PlainList = Annotated[list[Any], AfterValidator(check_json)]
PlainObject = Annotated[dict[str, Any], AfterValidator(check_json)]
