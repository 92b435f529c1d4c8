"""The calls of a map as a spec has them, and as each element reads its own."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings, strategies as st

from gpulayer.contracts.elements import element_spec
from gpulayer.errors import UsageError
from gpulayer.runtime.values import FOLDER, CallsFile, calls_in
from gpulayer.runtime.values.task import Refused, TaskValues
from gpulayer.sdk.calls import INLINE_CALLS, Calls, written
from gpulayer.sdk.values import Arguments


class Plane:
    """Lays what it is sent where a worker would stage it."""

    def __init__(self, folder: Path) -> None:
        self.inputs = folder
        self.stored: dict[str, bytes] = {}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return {"missing": body["digests"]}

    def request(self, method: str, path: str, body: Any = None, **_: Any) -> Any:
        self.stored[path.rpartition("/")[2].partition("?")[0]] = body.read()

    def stage(self, calls: Calls) -> None:
        for one in calls.inputs:
            target = self.inputs / one["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.stored[one["artifact"].rpartition("/")[2]])


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    return Plane(tmp_path)


def sent(plane: Plane, items: Iterable[tuple[Any, ...]]) -> Calls:
    with Arguments(lambda: plane) as arguments:  # type: ignore[arg-type,return-value]
        calls = written(items, arguments)
        arguments.flush()
    plane.stage(calls)
    return calls


def received(plane: Plane, calls: Calls, number: int) -> tuple[Any, ...]:
    """What the function of that element is called with."""
    work = {"kind": "function", "entrypoint": "m:f", "args": calls.args}
    args = element_spec({"workload": work, "array": calls.array}, number)["workload"]["args"]
    args, _ = TaskValues("m", None).arguments(args, {}, str(plane.inputs))
    return tuple(args)


PARTS = st.none() | st.integers() | st.text(max_size=5) | st.sets(st.integers(), max_size=3)
ITEMS = st.recursive(PARTS, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner))


@given(
    st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[ITEMS] * n), min_size=1)),
    st.sampled_from(["", "x" * 20_000]),
)
@settings(max_examples=60, deadline=None)
def test_each_element_is_called_with_its_own_item(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[Any, ...]], padding: str
) -> None:
    """Whether they stand in the spec or go along as a file."""
    plane = Plane(tmp_path_factory.mktemp("inputs"))
    items = [*items, (padding,) * len(items[0])]
    calls = sent(plane, items)
    assert calls.count == len(items)
    assert ("count" in calls.array) == bool(padding)
    assert [repr(received(plane, calls, number)) for number in range(len(items))] == [
        repr(item) for item in items
    ]


def test_many_go_along_as_one_file(plane: Plane) -> None:
    calls = sent(plane, ((number,) for number in range(INLINE_CALLS + 1)))
    assert [one["path"] for one in calls.inputs] == [".values/0.bin"]
    assert received(plane, calls, INLINE_CALLS) == (INLINE_CALLS,)
    assert sent(plane, ((number,) for number in range(INLINE_CALLS))).inputs == []


def test_arrays_of_all_items_share_files(plane: Plane) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: its arrays are not tried")
    small = [(numpy.arange(1_000.0) + number,) for number in range(20)]
    large = numpy.arange(200_000.0)
    calls = sent(plane, [*small, (large,), (large,)])
    assert len(calls.inputs) == 3
    for number, item in enumerate([*small, (large,), (large,)]):
        assert numpy.array_equal(received(plane, calls, number)[0], item[0])


def test_items_of_a_generator_are_not_in_memory_together(plane: Plane) -> None:
    size, count = 100_000, 200
    with Arguments(lambda: plane) as arguments:  # type: ignore[arg-type,return-value]
        tracemalloc.start()
        try:
            calls = written(((str(number) * (size // 4),) for number in range(count)), arguments)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert calls.count == count
    assert most < size * count / 4


@pytest.mark.parametrize("many", [0, INLINE_CALLS + 5])
def test_the_first_that_cannot_travel_is_named_and_nothing_is_sent(plane: Plane, many: int) -> None:
    items = [*[(1, 2)] * many, (1, {"a": object})]
    with pytest.raises(UsageError, match=rf"item {many}: args\[1\]\['a'\] is a type"):
        sent(plane, items)
    assert plane.stored == {}


def damaged(name: str) -> Callable[[bytes], bytes]:
    return {
        "empty": lambda data: b"",
        "cut": lambda data: data[:-9],
        "count": lambda data: data[:-8] + (1 << 60).to_bytes(8, "big"),
        "table": lambda data: data[:10] + b"\xff" * (len(data) - 18) + data[-8:],
        "text": lambda data: b"{" + data[1:],
    }[name]


@pytest.mark.parametrize("name", ["empty", "cut", "count", "table", "text"])
def test_a_damaged_file_is_refused(plane: Plane, name: str) -> None:
    calls = sent(plane, [("x" * 20_000,)])
    path = plane.inputs / FOLDER / "0.bin"
    path.write_bytes(damaged(name)(path.read_bytes()))
    with pytest.raises(Refused, match="its item cannot be read"):
        received(plane, calls, 0)


@pytest.mark.parametrize(
    "args",
    [
        [calls_in("../../etc/passwd"), 0],
        [calls_in("none.bin"), 0],
        [calls_in("0.bin"), "0"],
        [calls_in("0.bin"), -1],
        [calls_in("0.bin"), 2],
        [{"$gpulayer": 1, "args": "ab"}],
    ],
)
def test_a_call_that_names_none_is_refused(plane: Plane, args: list[Any]) -> None:
    folder = plane.inputs / FOLDER
    os.makedirs(folder)
    with open(folder / "0.bin", "wb") as file:
        filled(file)
    with pytest.raises(Refused):
        TaskValues("m", None).arguments(args, {}, str(plane.inputs))


def filled(file: BinaryIO) -> None:
    calls = CallsFile(file)
    for text in ("[1]", "[2]"):
        calls.add(text)
    calls.finish()
