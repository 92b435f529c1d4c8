"""Print the shape of a JSON document: each key with the kind of its value. Reads stdin.

Of a list the first item stands for all. What is empty or null is shown as such.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any


def shape(value: Any, indent: str = "") -> Iterator[str]:
    """Lines; nested keys go two spaces deeper."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{indent}{key}: {kind(item)}"
            yield from shape(item, indent + "  ")
    elif isinstance(value, list) and value:
        yield from shape(value[0], indent)


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{kind(value[0])}]" if value else "[]"
    if isinstance(value, dict):
        return "{}" if not value else "object"
    return {"str": "text", "bool": "yes or no"}.get(type(value).__name__, "number")


if __name__ == "__main__":
    print("\n".join(shape(json.load(sys.stdin))))
