"""The key of a call: equal where nothing relevant differs, another where anything relevant does."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from hypothesis import given, strategies as st

from gpulayer.contracts.calls import call_key

DIGESTS = st.sampled_from([f"artifact://sha256/{letter * 64}" for letter in "abc"])
WORDS = st.text("xyz", min_size=1, max_size=3)
COMMANDS = st.fixed_dictionaries(
    {"kind": st.just("command"), "command": st.lists(WORDS, min_size=1, max_size=3)},
    optional={"source": DIGESTS},
)
FUNCTIONS = st.fixed_dictionaries(
    {"kind": st.just("function"), "entrypoint": st.sampled_from(["m:f", "m:g"])},
    optional={
        "args": st.lists(st.integers(0, 3) | WORDS, max_size=2),
        "kwargs": st.dictionaries(WORDS, st.booleans(), max_size=2),
        "source": DIGESTS,
    },
)
INPUTS = st.lists(
    st.fixed_dictionaries({"artifact": DIGESTS, "path": WORDS}),
    max_size=3, unique_by=lambda one: one["path"],
)  # fmt: skip
RELEVANT: dict[str, Any] = {
    "env": st.dictionaries(WORDS, WORDS, max_size=2),
    "inputs": INPUTS,
    "stdin": DIGESTS,
    "image": st.sampled_from(["x@sha256:1", "x@sha256:2"]),
    "environment": st.fixed_dictionaries({}, optional={
        "requirements": st.lists(WORDS, max_size=2, unique=True),
        "file": st.sampled_from(["uv.lock", "pylock.toml"]),
    }),
    "secrets": st.lists(st.builds(lambda name: {"name": name, "source": "env"}, WORDS), max_size=1),
    "data": st.lists(WORDS, max_size=2, unique=True),
    "outputs": st.lists(WORDS, max_size=2, unique=True),
    "array": st.builds(lambda count: {"count": count}, st.integers(1, 2))
    | st.builds(lambda items: {"items": items}, st.lists(WORDS, min_size=1, max_size=2)),
    "resources": st.fixed_dictionaries({}, optional={"gpu_count": st.integers(1, 2)}),
}  # fmt: skip
IRRELEVANT: dict[str, Any] = {
    "name": WORDS,
    "labels": st.dictionaries(WORDS, WORDS, max_size=2),
    "priority": st.integers(-2, 2),
    "timeout_seconds": st.floats(1, 9),
    "retry": st.builds(lambda most: {"max_attempts": most}, st.integers(1, 3)),
    "placement": st.builds(lambda worker: {"worker_ids": [worker]}, WORDS),
}
SPECS = st.fixed_dictionaries({"workload": COMMANDS | FUNCTIONS}, optional=RELEVANT)
ORIGINS = st.fixed_dictionaries({}, optional={
    "call": st.fixed_dictionaries({"tree": st.sampled_from("ab"), "world": st.sampled_from("ab")}),
    "function": st.fixed_dictionaries({}, optional={"source": WORDS, "module": WORDS}),
})  # fmt: skip
OWNERS = st.sampled_from(["", "ann", "bo"])


def meaning(spec: Mapping[str, Any], origin: Mapping[str, Any]) -> Any:
    """What a program could notice, in a form of its own: without empty fields and orders that
    mean nothing."""

    def full(value: Any) -> Any:
        if isinstance(value, dict):
            found = {key: full(inner) for key, inner in value.items()}
            return {key: inner for key, inner in found.items() if inner not in ({}, [], "", None)}
        return value

    plain = full(copy.deepcopy({"spec": dict(spec), "origin": dict(origin)}))
    asked = plain.get("spec", {})
    for name in ("inputs", "secrets"):
        if name in asked:
            asked[name] = sorted(asked[name], key=str)
    for holder, name in ((asked, "data"), (asked, "outputs"),
                         (asked.get("environment", {}), "requirements")):  # fmt: skip
        if name in holder:
            holder[name] = sorted(holder[name])
    return plain


@given(SPECS, SPECS, ORIGINS, ORIGINS, OWNERS, OWNERS)
def test_keys_are_equal_exactly_where_the_calls_are(
    a: Any, b: Any, at: Any, there: Any, mine: str, theirs: str
) -> None:
    is_same = (meaning(a, at), mine) == (meaning(b, there), theirs)
    assert (call_key(a, at, mine) == call_key(b, there, theirs)) == is_same


@given(SPECS, ORIGINS, OWNERS, st.data())
def test_one_relevant_change_makes_another_call(a: Any, at: Any, mine: str, data: Any) -> None:
    field = data.draw(st.sampled_from(sorted(RELEVANT)))
    b = {**a, field: data.draw(RELEVANT[field])}
    is_same = meaning(a, at) == meaning(b, at)
    assert (call_key(a, at, mine) == call_key(b, at, mine)) == is_same


@given(SPECS, ORIGINS, OWNERS, st.fixed_dictionaries({}, optional=IRRELEVANT))
def test_what_a_program_cannot_notice_changes_nothing(
    a: Any, at: Any, mine: str, rest: dict[str, Any]
) -> None:
    elsewhere = {**at, "host": "another", "cwd": "/another", "user": "another"}
    assert call_key(a, at, mine) == call_key({**a, **rest}, elsewhere, mine)
    assert call_key(a, at, mine) == call_key(dict(reversed(list(a.items()))), at, mine)


def test_a_matrix_in_another_order_is_another_array_and_its_pace_is_not() -> None:
    def key(**array: Any) -> str:
        work = {"kind": "command", "command": ["a"]}
        return call_key({"workload": work, "array": array}, {}, "")

    names = {"a": ["1"], "b": ["2", "3"]}
    assert key(matrix=names) != key(matrix=dict(reversed(names.items())))
    assert key(matrix=names) == key(matrix=names, max_parallel=2, max_failures=0)
    assert len({key(count=2), key(count=2, first=1), key(count=2, step=2)}) == 3
