"""Arguments as a spec has them, and what travels beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulayer.errors import JobFailedError, UsageError
from gpulayer.runtime import values
from gpulayer.sdk import values as sdk_values
from gpulayer.sdk.values import Arguments, result_of, with_written
from tests.support.value_kinds import Point


class Plane:
    """Takes artifacts, as a transport sees it."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.asked = 0

    def call(self, method: str, path: str, body: Any = None) -> Any:
        self.asked += 1
        return {"missing": [one for one in body["digests"] if one not in self.stored]}

    def request(
        self, method: str, path: str, body: Any = None, *, sink: Any = None, **_: Any
    ) -> Any:
        digest = path.rpartition("/")[2].partition("?")[0]
        if method == "GET":
            sink.write(self.stored[digest])
        else:
            self.stored[digest] = body if isinstance(body, bytes) else body.read()
        return {}


@pytest.fixture
def plane() -> Plane:
    return Plane()


def wire(plane: Plane) -> Callable[[], Any]:
    return lambda: plane


def test_plain_arguments_are_those_of_the_spec_and_nothing_is_sent(plane: Plane) -> None:
    given = [{"a": [1, None]}, "é"]
    with Arguments(wire(plane)) as arguments:
        args, kwargs, inputs = arguments.write(given, {"x": 1.5})
        arguments.flush()
    assert (args, kwargs, inputs) == (given, {"x": 1.5}, [])
    assert args[0] is given[0]
    assert plane.asked == 0


def test_what_is_large_is_an_input_and_sent_before_the_job(plane: Plane, tmp_path: Path) -> None:
    long = "x" * 20_000
    with Arguments(wire(plane)) as arguments:
        args, kwargs, inputs = arguments.write([1, (long,)], {"again": [long]})
        arguments.flush()
    assert args[0] == 1
    assert args[1] == {values.KEY: 1, "file": "0.json"}
    assert [one["path"] for one in inputs] == [".values/0.json", ".values/1.json"]
    for one in inputs:
        stored = plane.stored[one["artifact"].rpartition("/")[2]]
        (tmp_path / one["path"].rpartition("/")[2]).write_bytes(stored)
    source = values.FolderSource(str(tmp_path))
    assert values.decode(args[1], values.Classes(), source) == (long,)
    assert values.decode(kwargs["again"], values.Classes(), source) == [long]


def test_many_arguments_leave_the_spec_within_its_size(plane: Plane) -> None:
    with Arguments(wire(plane)) as arguments:
        args, _, inputs = arguments.write(["x" * 15_000] * 30, {})
    assert len(json.dumps(args)) < sdk_values.SPEC_BYTES + 30 * 100
    assert len(inputs) == 30 - sdk_values.SPEC_BYTES // 15_002


def test_an_array_that_calls_share_is_written_and_sent_once(plane: Plane) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: its arrays are not tried")
    array = numpy.zeros(1 << 18)
    with Arguments(wire(plane)) as arguments:
        written = [arguments.write([array, number], {}) for number in range(20)]
        arguments.flush()
    assert len({inputs[0]["artifact"] for _, _, inputs in written}) == 1
    assert len(plane.stored) == 1


def test_what_waits_on_the_disk_is_sent_when_it_is_much(plane: Plane) -> None:
    with Arguments(wire(plane), waiting_bytes=100_000) as arguments:
        for letter in "abcdefgh":
            arguments.write([letter * 30_000], {})
        assert len(plane.stored) == 8
        arguments.flush()
    assert plane.asked == 2


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, "args[0] is nan"),
        ([math.inf], "args[0][0]"),
        ([1, {"x": [1, 2, 3, {4: len}]}], "args[0][1]['x'][3][4] is a builtin"),
        (Point(1, [len]), "args[0].y[0]"),
        ({"\ud800": len}, "args[0]['\\ud800']"),
    ],
)
def test_a_value_that_would_change_is_refused_with_its_place(value: Any, place: str) -> None:
    with Arguments(wire(Plane())) as arguments, pytest.raises(UsageError) as caught:
        arguments.write([value], {})
    assert caught.value.code == "value-not-portable"
    assert caught.value.message.startswith(place)
    assert caught.value.hint


def test_a_named_argument_is_refused_by_its_name() -> None:
    with (
        Arguments(wire(Plane())) as arguments,
        pytest.raises(UsageError, match=r"^kwargs\['x'\]\[1\] is a builtin"),
    ):
        arguments.write([], {"x": [1, len]})


def test_a_workload_made_by_hand_may_have_both_forms() -> None:
    tagged = {values.KEY: 1, "value": {"$tuple": []}}
    made = with_written({"kind": "function", "args": [1, tagged, (2,)], "kwargs": {"x": {3}}})
    assert made["args"] == [1, tagged, {values.KEY: 1, "value": {"$tuple": [2]}}]
    assert made["kwargs"] == {"x": {values.KEY: 1, "value": {"$set": [3]}}}


# --- results --------------------------------------------------------------------------------


def job(value: Any, **outputs: str) -> dict[str, Any]:
    listed = [
        {"path": f".values/{name}.json", "digest": digest} for name, digest in outputs.items()
    ]
    return {"id": "f-1", "result": {"value": value}, "outputs": listed}


def test_a_plain_result_is_itself(plane: Plane) -> None:
    value = {"a": [1]}
    assert result_of(job(value), wire(plane)) is value
    assert result_of({"id": "c-1", "result": None}, wire(plane)) == 0


def test_a_result_in_a_file_is_fetched_and_compared(plane: Plane) -> None:
    import hashlib

    digest = hashlib.sha256(b'{"$tuple":[1]}').hexdigest()
    plane.stored[digest] = b'{"$tuple":[1]}'
    named = {values.KEY: 1, "file": "r.json"}
    assert result_of(job(named, r=digest), wire(plane)) == (1,)
    plane.stored[digest] = b'{"$tuple":[2]}'
    with pytest.raises(Exception, match="arrived with other bytes"):
        result_of(job(named, r=digest), wire(plane))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"file": "r.json"}, "its file r.json is not among the outputs"),
        ({"value": {"$dataclass": ["no_such:X", {}]}}, "import no_such before"),
        ({"value": {"$tuple": 1}}, "it is damaged"),
    ],
)
def test_a_result_that_cannot_be_read_here_says_why(plane: Plane, value: Any, said: str) -> None:
    with pytest.raises(JobFailedError, match=said) as caught:
        result_of(job({values.KEY: 1, **value}), wire(plane))
    assert caught.value.code == "value-not-portable"
    assert caught.value.job_id == "f-1"
