"""Which elements an array has, and what each of them is given."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts import validate_spec
from gpulayer.contracts.elements import element_spec, grid_of, names_item, parameters
from gpulayer.errors import SpecError
from tests.unit.contracts.specs import command


def spec(array: dict[str, Any], *words: str, **more: Any) -> dict[str, Any]:
    return {
        "workload": {"kind": "command", "command": list(words) or ["a"]},
        "array": array,
        **more,
    }


@pytest.mark.parametrize(
    ("array", "indices"),
    [
        ({"count": 3}, [0, 1, 2]),
        ({"count": 3, "first": 5}, [5, 6, 7]),
        ({"count": 3, "first": 1, "step": 4}, [1, 5, 9]),
        ({"items": ["a", "b"]}, [0, 1]),
        ({"matrix": {"a": [1, 2], "b": [1, 2, 3]}}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_index_and_position_are_each_others_opposite(array: Any, indices: list[int]) -> None:
    grid = grid_of(spec(array))
    assert [grid.index(position) for position in range(grid.size)] == indices
    assert [grid.position(index) for index in indices] == list(range(grid.size))
    assert {grid.position(index) for index in range(-2, 12) if index not in indices} == {None}


def test_a_matrix_is_every_combination_once_and_its_last_name_runs_fastest() -> None:
    array = spec({"matrix": {"a": [1, 2], "b": ["x", "y", "z"], "c": [True]}})
    found = [parameters(array, index) for index in range(6)]
    assert found == [{"a": a, "b": b, "c": True} for a in (1, 2) for b in "xyz"]


@pytest.mark.parametrize(
    ("word", "becomes"),
    [
        ("{item}", "a b"),
        ("x{item}y{index}", "xa by7"),
        ("{{item}}", "{item}"),
        ("{{", "{"),
        ("{{{item}", "{a b"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{print $1}", "{print $1}"),
        ("{lr} {}", "{lr} {}"),
    ],
)
def test_known_names_are_replaced_and_every_other_brace_stays(word: str, becomes: str) -> None:
    array = spec({"items": [0] * 7 + ["a b"]}, word, env={"A": word})
    own = element_spec(array, 7)
    assert own["workload"]["command"] == [becomes]
    assert own["env"]["A"] == becomes


def test_what_is_filled_in_is_not_looked_at_again() -> None:
    own = element_spec(spec({"items": ["{index}"]}, "{item}"), 0)
    assert own["workload"]["command"] == ["{index}"]


def test_items_that_are_no_text_are_given_as_json() -> None:
    own = element_spec(spec({"items": [{"a": [1.5, None]}]}, "{item}"), 0)
    assert own["workload"]["command"] == ['{"a":[1.5,null]}']
    assert own["env"]["GPULAYER_PARAM_ITEM"] == '{"a":[1.5,null]}'


def test_the_array_itself_is_left_as_it_was() -> None:
    array = spec({"count": 2}, "{index}", env={"A": "b"})
    before = repr(array)
    assert "array" not in element_spec(array, 1)
    assert repr(array) == before


def test_a_command_may_say_where_its_item_goes() -> None:
    assert names_item(spec({"items": ["a"]}, "x", "-{item}"))
    assert names_item(spec({"items": ["a"]}, "x", env={"A": "{item}"}))
    assert not names_item(spec({"items": ["a"]}, "x", "{items}"))


@pytest.mark.parametrize(
    "array",
    [
        {"count": 2, "first": -1},
        {"count": 2, "step": 0},
        {"items": ["a"], "first": 1},
        {"matrix": {"a": [1]}, "step": 2},
        {"count": 1_000, "step": 2_000_000_000},
        {"items": ["a\0b"]},
        {"matrix": {"a": ["\0"]}},
    ],
)
def test_what_has_no_meaning_is_refused(array: Any) -> None:
    with pytest.raises(SpecError):
        validate_spec(command(array=array))
