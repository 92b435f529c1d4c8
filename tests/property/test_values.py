"""The law of values: what is accepted comes back equal with equal types, all the way down; all else
is refused with its place."""

from __future__ import annotations

import json
import random

import pytest

from gpulayer.runtime import values
from tests.support import value_kinds
from tests.support.value_kinds import Memory, same

VALUES = 100_000
PARTS = 8
"""Pieces of them, for tests that run side by side."""
CLASSES = values.Classes()


@pytest.mark.parametrize("part", range(PARTS))
def test_a_value_comes_back_equal_with_equal_types_or_is_refused_with_its_place(part: int) -> None:
    draw = random.Random(part)
    refused = 0
    for number in range(VALUES // PARTS):
        if draw.random() < 0.1:
            value, place = value_kinds.spoiled(draw)
            with pytest.raises(values.NotPortable) as caught:
                values.encode(value, CLASSES, Memory())
            said = caught.value.at("args[0]")
            assert said.startswith((f"args[0]{place} is ", f"args[0]{place} h")), (part, number)
            assert caught.value.mend
            refused += 1
            continue
        value = value_kinds.value(draw)
        memory = Memory()
        inline = draw.choice([1 << 20, 1 << 20, 40])
        depth = draw.choice([200, 60, 4])
        written = values.encode(value, CLASSES, memory, inline=inline, depth=depth)
        assert written.text.isascii()
        back = values.decode(json.loads(written.text), CLASSES, memory)
        assert same(back, value), (part, number, value, back)
    assert refused > VALUES // PARTS // 20


def test_equal_values_are_the_same_text() -> None:
    """A cache that compares calls finds them again."""
    draw = random.Random(5)
    for _ in range(300):
        made = [(draw.random(), draw.randbytes(3), None) for _ in range(6)]
        mixed = random.Random(7).sample(made, 6)
        first, second = (values.encode(set(one), CLASSES, Memory()).text for one in (made, mixed))
        assert first == second


def test_plain_json_travels_as_it_is() -> None:
    value = {"a": [1, 2.5, None, True, "é", {"$set": {"x": 1}}], "$": []}
    written = values.encode(value, CLASSES, values.Sink())
    assert written.wire is value
    assert json.loads(written.text) == value
