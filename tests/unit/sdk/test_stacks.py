"""Processes that stand alike are together, and the odd one is last."""

from __future__ import annotations

from typing import Any

from gpulayer.sdk.stacks import groups


def process(rank: int, place: str, *, is_rank: bool = True) -> dict[str, Any]:
    frames = [["t.py", 1, "<module>"], ["t.py", 9, place]]
    other = {"is_main": False, "frames": [["t.py", rank, "beside"]]}
    threads = [{"is_main": True, "frames": frames}, other]
    return {"pid": 100 + rank, "rank": rank, "is_rank": is_rank, "threads": threads}


def test_the_odd_one_is_last() -> None:
    told = [process(2, "reduce"), process(1, "load"), process(0, "reduce")]
    told.append({"pid": 9, "rank": None, "is_rank": False, "threads": []})
    found = [([p["rank"] for p in g.processes], g.frames[-1][2]) for g in groups(told)]
    assert found == [([0, 2], "reduce"), ([1], "load")]


def test_a_child_is_not_its_rank() -> None:
    told = [process(0, "load"), process(0, "load", is_rank=False)]
    assert [len(g.processes) for g in groups(told)] == [1, 1]
