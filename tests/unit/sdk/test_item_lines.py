"""Items that people write down, and what is said of a line that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.errors import UsageError
from gpulayer.sdk.calls import written_json
from gpulayer.sdk.item_lines import json_lines, lines_of, words_as_values
from gpulayer.sdk.values import Arguments


@pytest.fixture
def arguments() -> Arguments:
    def nobody() -> None:
        raise AssertionError("nothing is sent")

    return Arguments(nobody)  # type: ignore[arg-type]


def written(tmp_path: Path, data: bytes) -> str:
    (tmp_path / "it's").write_bytes(data)
    return str(tmp_path / "it's")


def test_each_line_is_a_value_with_its_place(tmp_path: Path) -> None:
    name = written(tmp_path, b'\xef\xbb\xbf1\r\n{"a": [null]}\n"x"\n\n \n')
    assert list(json_lines(name, "--over")) == [
        (f"{name}:1", 1),
        (f"{name}:2", {"a": [None]}),
        (f"{name}:3", "x"),
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"1\nx\n", "2: the line is not JSON: Expecting value at column 1"),
        (b"1\n\n2\n", "2: the line is empty"),
        (b"NaN\n", "1: the line is not JSON: JSON has no NaN"),
        (b"[-Infinity]", "1: the line is not JSON: JSON has no -Infinity"),
        (b"1 2\n", "1: the line is not JSON: Extra data"),
        (b"1\n" + b"[" * 100_000 + b"\n", "2: the line is nested too deeply"),
        (b"1" * 5_000, "1: the line is not JSON"),
        (b"1\n\xff\n", "2: the line is not UTF-8 at byte 1"),
        (b"1\n2\0\n", "2: the line holds a NUL"),
        (b"", " has no lines"),
        (b"\n \n", " has no values"),
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(
    tmp_path: Path, data: bytes, said: str
) -> None:
    name = written(tmp_path, data)
    with pytest.raises(UsageError) as refused:
        list(json_lines(name, "--over"))
    assert f"{name}:{said}" in refused.value.message or f"{name}{said}" in refused.value.message
    assert '"\'"' in refused.value.help[0], "its name can be pasted"


def test_an_empty_line_of_text_is_one(tmp_path: Path) -> None:
    assert list(lines_of(written(tmp_path, b"a\n\n b \r\nlast"), "-")) == ["a", "", " b ", "last"]


def test_words_are_json_where_they_read_so() -> None:
    words = ["1", "-0.5", "true", "null", "007", "NaN", '"1"', "[1]", "a b", ""]
    assert [value for _, value in words_as_values(words)] == [
        1, -0.5, True, None, "007", "NaN", "1", [1], "a b", "",
    ]  # fmt: skip


def test_values_travel_as_they_are_and_several_arguments_as_a_call(arguments: Arguments) -> None:
    tagged = {"$gpulayer": 1, "value": {"$tuple": [1]}}
    items = [("", 1), ("", tagged), ("", {"$gpulayer": 1, "args": [1, tagged]})]
    assert written_json(items, arguments).array == {"items": [item for _, item in items]}


def test_many_are_one_file_and_one_that_cannot_travel_is_named(arguments: Arguments) -> None:
    with arguments:
        made = written_json(((str(n), n) for n in range(1_500)), arguments)
    assert (made.array, made.count, len(made.inputs)) == ({"count": 1_500}, 1_500, 1)
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(UsageError, match="file:7"):
        written_json([("file:7", deep)], arguments)
