"""Values travel unchanged or are refused, with their place."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpulayer.errors import UsageError
from gpulayer.sdk.values import require_portable

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


class Level(IntEnum):
    HIGH = 1


def _same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(_same(left[k], right[k]) for k in left)
    return bool(left == right)


@given(PLAIN)
def test_an_accepted_value_comes_back_equal_and_of_equal_types(value: Any) -> None:
    require_portable([value], {})
    assert _same(json.loads(json.dumps(value)), value)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ((1, 2), "args[0]"),
        ([1, {"a": (1,)}], "args[0][1]['a']"),
        ({"a": {1: 2}}, "args[0]['a']"),
        ({1, 2}, "args[0]"),
        (b"x", "args[0]"),
        (math.nan, "args[0]"),
        ([math.inf], "args[0][0]"),
        (Level.HIGH, "args[0]"),
        (OrderedDict(a=1), "args[0]"),
        (Path("x"), "args[0]"),
        ("\ud800", "args[0]"),
        ({"\ud800": 1}, "args[0]"),
        (1j, "args[0]"),
        (2**14_001, "args[0]"),
    ],
)
def test_a_value_that_would_change_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_portable([value], {})
    assert caught.value.code == "value-not-portable"
    assert caught.value.message.startswith(place)
    assert caught.value.hint


def test_a_named_argument_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match=r"^kwargs\['x'\]\[1\] is a tuple"):
        require_portable([], {"x": [1, ()]})


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(UsageError, match="holds itself"):
        require_portable([], {"x": value})


def test_the_same_list_twice_is_no_cycle() -> None:
    shared = [1]
    require_portable([[shared, shared], shared], {"again": shared})
