"""The elements of an array: which there are, what each is given, how their states are kept. Pure.

An element is known by its index. Its position, 0 to size - 1, is where it stands in the row of all;
the two differ where an array of a count has a first index or a step.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHUNK = 1_024
"""Positions of one row of states."""

ARRAY_END = -1
"""The index of the result of an array itself."""

FRESH, RETURNED, LIVE, LEFT_OUT = ".", "r", "l", "-"
"""Letters of states: never given out, given out and back, given out, not of this job (a retry runs
only some of the elements)."""
SUCCEEDED, FAILED, TIMED_OUT, CANCELLED = "s", "f", "t", "c"
BAD = FAILED + TIMED_OUT

WORDS = {
    FRESH: "waiting",
    RETURNED: "waiting",
    LIVE: "running",
    SUCCEEDED: "succeeded",
    FAILED: "failed",
    TIMED_OUT: "timed_out",
    CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class Grid:
    size: int
    first: int = 0
    step: int = 1

    def index(self, position: int) -> int:
        return self.first + self.step * position

    def position(self, index: int) -> int | None:
        """None: there is no such element."""
        position, rest = divmod(index - self.first, self.step)
        return position if rest == 0 and 0 <= position < self.size else None


def grid_of(spec: Mapping[str, Any]) -> Grid:
    """Of the array in a job's spec."""
    array = spec["array"]
    if array.get("count") is not None:
        return Grid(array["count"], array.get("first", 0), array.get("step", 1))
    if array.get("items") is not None:
        return Grid(len(array["items"]))
    return Grid(math.prod(len(values) for values in array["matrix"].values()))


def parameters(spec: Mapping[str, Any], index: int) -> dict[str, Any]:
    """What the element of that index is given, by name. The last name of a matrix runs fastest."""
    array = spec["array"]
    if array.get("items") is not None:
        return {"item": array["items"][index - array.get("from", 0)]}
    found: dict[str, Any] = {}
    for name, values in reversed((array.get("matrix") or {}).items()):
        index, at = divmod(index, len(values))
        found[name] = values[at]
    return dict(reversed(found.items()))


def element_spec(spec: Mapping[str, Any], index: int) -> dict[str, Any]:
    """The job that one element is: with its own words and variables, and no array.

    A function is called with the index, the item, or the parameters by name.
    """
    given = parameters(spec, index)
    own = {key: value for key, value in spec.items() if key != "array"}
    own["env"] = {**(spec.get("env") or {}), "GPULAYER_ARRAY_INDEX": str(index)}
    work = dict(spec["workload"])
    if work["kind"] == "command" or spec.get("env"):
        texts = {name: text_of(value) for name, value in given.items()}
        fill = _filling({"index": str(index), **texts})
        own["env"] |= {name: fill(text) for name, text in (spec.get("env") or {}).items()}
    if work["kind"] == "command":
        work["command"] = [fill(word) for word in work["command"]]
        own["env"] |= {f"GPULAYER_PARAM_{name.upper()}": text for name, text in texts.items()}
    elif "matrix" in spec["array"]:
        work["kwargs"] = {**(work.get("kwargs") or {}), **given}
    else:
        work["args"] = [*(work.get("args") or ()), given.get("item", index)]
    own["workload"] = work
    return own


def text_of(value: Any) -> str:
    """Text stays itself; anything else is its JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def names_item(spec: Mapping[str, Any]) -> bool:
    """Whether a command says itself where its item goes."""
    words = [*spec["workload"].get("command", ()), *(spec.get("env") or {}).values()]
    return any("{item}" in word for word in words)


def _filling(texts: Mapping[str, str]) -> Any:
    """`{name}` of a known name is replaced, `{{` is a brace; any other brace stays."""
    names = "|".join(map(re.escape, texts))
    pattern = re.compile(rf"\{{\{{(?P<kept>{names})\}}\}}|\{{\{{|\{{(?P<name>{names})\}}")

    def put(found: re.Match[str]) -> str:
        if found["name"] is not None:
            return texts[found["name"]]
        return "{" + found["kept"] + "}" if found["kept"] is not None else "{"

    return lambda text: pattern.sub(put, text)
