"""How people write arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulayer.errors import NotFoundError, UsageError
from gpulayer.sdk.array_words import array_of, split_items, with_bare_matrix

WORK = {"kind": "command", "command": ["a"]}
CALL = {"kind": "function", "entrypoint": "m:f"}


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("0-9", {"count": 10}),
        ("5", {"count": 1, "first": 5}),
        ("0-99:3%8", {"count": 34, "step": 3, "max_parallel": 8}),
        ("7-8", {"count": 2, "first": 7}),
        ("2-9:4", {"count": 2, "first": 2, "step": 4}),
        ("0-9%2", {"count": 10, "max_parallel": 2}),
    ],
)
def test_ranges_are_those_of_slurm(text: str, wish: dict[str, int]) -> None:
    assert array_of(WORK, array=text) == (WORK, wish)


@pytest.mark.parametrize("text", ["", "a", "9-0", "0-9:0", "1,2", "-3", "0-", "%", "0-9%x", "0-9:"])
def test_what_is_no_range_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        array_of(WORK, array=text)
    assert "--array" in str(refused.value.help)


def test_lines_become_items_and_the_last_word(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes("a b\n\nä\r\nlast".encode())
    work, wish = array_of(WORK, each_line=str(file), array="%2")
    assert wish == {"items": ["a b", "", "ä", "last"], "max_parallel": 2}
    assert work["command"] == ["a", "{item}"]
    named = {**WORK, "command": ["a", "{item}", "b"]}
    assert array_of(named, items=["x"])[0] == named
    assert array_of(CALL, items=["x"])[0] == CALL


@pytest.mark.parametrize(("data", "line"), [(b"a\nb\0\n", 2), (b"a\nb\n\xff\n", 3), (b"\xc3", 1)])
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, data: bytes, line: int) -> None:
    file = tmp_path / "f"
    file.write_bytes(data)
    with pytest.raises(UsageError) as refused:
        array_of(WORK, each_line=str(file))
    assert f"{file}:{line}:" in refused.value.message
    assert f"sed -n {line}p" in str(refused.value.help)


@pytest.mark.parametrize("data", [b"\n" * 10_001, b"x" * 999 + b"\n" + b"y" * 300_000])
def test_more_lines_than_a_job_can_hold_are_refused_with_what_can(
    tmp_path: Path, data: bytes
) -> None:
    file = tmp_path / "f"
    file.write_bytes(data)
    for work, mend in ((WORK, "sed -n"), (CALL, f"gpulayer map m:f --each-line {file}")):
        with pytest.raises(UsageError) as refused:
            array_of(work, each_line=str(file))
        assert refused.value.code == "too-large"
        assert mend in str(refused.value.help)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        array_of(WORK, each_line=str(tmp_path / "none"))


def test_parameters_are_text_for_a_command_and_json_for_a_function() -> None:
    words = ["lr=0.1,0.01", "name=a,true"]
    _, wish = array_of(WORK, matrix=words)
    assert wish == {"matrix": {"lr": ["0.1", "0.01"], "name": ["a", "true"]}}
    _, wish = array_of(CALL, matrix=words)
    assert wish == {"matrix": {"lr": [0.1, 0.01], "name": ["a", True]}}


@pytest.mark.parametrize(
    "wish",
    [
        {"array": "0-9", "items": ["a"]},
        {"array": "0-9", "matrix": ["a=1"]},
        {"items": ["a"], "matrix": ["a=1"]},
        {"array": "%3"},
        {"max_failures": 1},
        {"matrix": ["a"]},
        {"matrix": ["a=1", "a=2"]},
    ],
)
def test_what_is_no_one_array_is_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        array_of(WORK, **wish)


def test_items_end_a_command_line_but_not_that_of_parallel() -> None:
    assert split_items(["a", ":::", "b", "c"]) == (["a"], ["b", "c"])
    own = ["/usr/bin/parallel", "echo", ":::", "b"]
    assert split_items(own) == (own, [])
    for words in ([":::", "a"], ["a", ":::"], ["a", ":::", "b", ":::", "c"]):
        with pytest.raises(UsageError):
            split_items(words)


def test_several_parameters_may_follow_one_flag() -> None:
    words = ["--matrix", "a=1", "b=2", "-q", "--", "c=3"]
    assert with_bare_matrix(words) == ["--matrix", "a=1", "--matrix", "b=2", "-q", "--", "c=3"]
    assert with_bare_matrix(["--matrix", "a=1", "x=", "run"])[:4] == [
        "--matrix",
        "a=1",
        "--matrix",
        "x=",
    ]
