"""Every place in a JSON value, and the value with something else there."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else ()
    for key, part in list(enumerate(value)) if isinstance(value, list) else parts:
        yield from places_in(part, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    if not path:
        return wrong
    value = copy.deepcopy(value)
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = wrong
    return value
