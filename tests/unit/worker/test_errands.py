# ruff: noqa: F401, F811
"""What a worker tells of its caches, and what of them it lets go of."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock
from gpulayer.contracts.messages import Errand
from gpulayer.errors import GPULayerError
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.errands import Errands
from tests.support.packages import BasePython, Packages
from tests.unit.worker.test_environments import Bench, base, by_uv, packages


class Asked:
    def __init__(self, bench: Bench, folder: Path) -> None:
        self.held: set[str] = set()
        cache = ArtifactCache(
            str(folder / "cache"), lambda _, path: Path(path).touch(), SystemClock()
        )
        self.errands = Errands(str(bench.tasks), bench.all, cache, lambda: self.held)

    def caches(self, *what: str) -> dict[str, Any]:
        return self.errands.do(Errand("e", "caches", {"what": list(what)}))

    def remove(self, *keys: str, unused: bool = False) -> dict[str, Any]:
        body = {"keys": list(keys), "unused": unused}
        return self.errands.do(Errand("e", "remove_environments", body))


@pytest.fixture
def asked(by_uv: Bench, tmp_path: Path) -> Asked:
    return Asked(by_uv, tmp_path)


def test_an_environment_is_told_with_what_it_was_made_from_and_who_uses_it(
    asked: Asked, by_uv: Bench, base: BasePython
) -> None:
    ready = by_uv.provide("t1", "gamma", "alpha")
    [told] = asked.caches("environments")["environments"]
    assert told["key"] == os.path.basename(ready.folder)
    assert told["requirements"] == ["alpha", "gamma"]
    assert (told["python"], told["by"], told["used_by"]) == (base.python, "uv", ["t1"])
    assert told["bytes"] > 0
    assert told["used_at"] >= told["made_at"]
    by_uv.end("t1")
    [told] = asked.caches("environments")["environments"]
    assert told["used_by"] == []


def test_what_ended_tasks_left_is_told_and_what_live_ones_have_is_not(
    asked: Asked, by_uv: Bench
) -> None:
    for task in ("t1", "t2"):
        (by_uv.tasks / task / "work").mkdir(parents=True)
        (by_uv.tasks / task / "work" / "left").write_bytes(b"x" * 10_000)
    asked.held.add("t2")
    told = asked.caches()
    assert told["workspaces"]["count"] == 1
    assert 10_000 <= told["workspaces"]["bytes"] < 20_000
    assert told["artifacts"] == {"count": 0, "bytes": 0}


def test_one_that_a_task_uses_is_kept_and_all_others_go(asked: Asked, by_uv: Bench) -> None:
    used, free = (os.path.basename(by_uv.provide(t, t).folder) for t in ("alpha", "gamma"))
    by_uv.end("gamma")
    done = asked.remove(used[:10], free[:10], "nosuch", "")
    assert [one["key"] for one in done["removed"]] == [free]
    assert done["unknown"] == ["nosuch"]
    several, kept = done["kept"]
    assert (several["key"], several["why"]) == ("", "several begin like this")
    assert (kept["key"], kept["used_by"]) == (used, ["alpha"])
    assert by_uv.keys() == [used]
    assert [one["key"] for one in asked.remove(unused=True)["kept"]] == [used]
    by_uv.end("alpha")
    assert [one["key"] for one in asked.remove(unused=True)["removed"]] == [used]
    assert by_uv.keys() == []


def test_beside_a_build_nothing_of_it_is_removed(
    asked: Asked, by_uv: Bench, packages: Packages
) -> None:
    build = packages.waiting("slow")
    wanted = threading.Event()
    wanted.set()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(by_uv.provide, "t1", "slow", is_wanted=wanted.is_set)
        build.wait()
        [key] = by_uv.keys()
        assert asked.remove(unused=True) == {"removed": [], "kept": [], "unknown": []}
        assert asked.remove(key)["unknown"] == [key], "it is none yet"
        assert by_uv.keys() == [key]
        wanted.clear()
        build.until_nobody_is_left()
        with pytest.raises(GPULayerError):
            done.result()
