"""Metrics at the plane: each part once, of the attempt that lives, bounded."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts import limits
from gpulayer.contracts.messages import Held, KeepMetrics, MetricsKept
from gpulayer.control_plane import metrics as under_test
from gpulayer.errors import UsageError
from tests.support.env import Env, EnvWorker


def part(name: str = "loss", *points: list[Any], index: int = 0) -> dict[str, Any]:
    return {"index": index, "name": name, "points": [[s, 5.0, v] for s, v in points]}


def keep(
    env: Env, held: Held, begins: int, ends: int, *series: dict[str, Any], note: str = ""
) -> MetricsKept:
    message = KeepMetrics(held.fence, begins, ends, series, note)
    return env.plane.keep_metrics(held.task_id, message).result(0)


def begun(env: Env, worker: EnvWorker, job: str) -> Held:
    env.run_pass()
    worker.acquire()
    worker.start(job)
    return worker.task(job)


def told(env: Env, job: str, name: str = "loss") -> list[tuple[int, int, float]]:
    found = env.plane.metrics(job, name=name, whole=True)["series"]
    return [(p["attempt"], p["step"], p["value"]) for one in found for p in one["points"]]


def test_each_part_counts_once_whoever_sends_it_again() -> None:
    with Env() as env:
        job = env.submit()
        held = begun(env, env.worker(), job)
        assert keep(env, held, 0, 10, part("loss", [1, 1.0])) == MetricsKept(10)
        assert keep(env, held, 0, 10, part("loss", [1, 1.0])) == MetricsKept(10)
        assert keep(env, held, 5, 20, part("loss", [2, 9.0])) == MetricsKept(10)
        assert keep(env, held, 10, 20, part("loss", [2, 2.0])) == MetricsKept(20)
        assert told(env, job) == [(1, 1, 1.0), (1, 2, 2.0)]
        newest = env.plane.metrics(job)["series"]
        assert [(one["name"], one["last"]["value"]) for one in newest] == [("loss", 2.0)]
        assert "points" not in newest[0]


def test_the_next_attempt_goes_on_and_the_one_before_says_no_more() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(retries=1, retry_on=("failed",))
        old = begun(env, worker, job)
        keep(env, old, 0, 10, part("loss", [1, 1.0], [2, 2.0], [3, 3.0]))
        worker.finish(job, code=1)
        assert keep(env, old, 10, 20, part("loss", [4, 4.0])).over
        env.advance(5)
        new = begun(env, worker, job)
        assert keep(env, new, 0, 10, part("loss", [2, 20.0])) == MetricsKept(10)
        assert keep(env, Held(new.task_id, old.fence, "running"), 10, 20).over
        assert told(env, job) == [(1, 1, 1.0), (2, 2, 20.0)]
        worker.finish(job)
        assert env.plane.metrics(job)["ended"]
        assert told(env, job) == [(1, 1, 1.0), (2, 2, 20.0)]


def test_what_are_no_metrics_is_refused_whole_and_another_element_is_left_out() -> None:
    with Env() as env:
        job = env.submit()
        held = begun(env, env.worker(), job)
        with pytest.raises(UsageError):
            keep(env, held, 0, 10, part("loss", [1, 1.0]), {"name": "x"})
        assert keep(env, held, 0, 10, part("loss", [1, 1.0], index=4)) == MetricsKept(10)
        assert told(env, job) == []


def test_many_parts_are_joined_and_many_points_thinned() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(retries=1, retry_on=("failed",))
        held = begun(env, worker, job)
        for n in range(under_test.ROWS + 5):
            assert keep(env, held, n, n + 1, part("loss", [n, float(n)])) == MetricsKept(n + 1)
        with env.store.read() as reader:
            assert len(reader.metrics(job)) < 10
        assert len(told(env, job)) == under_test.ROWS + 5
        at = under_test.ROWS + 5
        for n in range(40):
            points = [[at + n * 2_000 + i, float(i)] for i in range(2_000)]
            keep(env, held, at + n, at + n + 1, part("loss", *points))
        found = told(env, job)
        assert limits.METRIC_POINTS // 8 < len(found) <= limits.METRIC_POINTS
        assert found[0] == (1, 0, 0.0)
        assert found[-1] == (1, at + 39 * 2_000 + 1_999, 1_999.0)
        assert [step for _, step, _ in found] == sorted(step for _, step, _ in found)


def test_too_many_series_are_said_once() -> None:
    with Env() as env:
        job = env.submit()
        held = begun(env, env.worker(), job)
        names = [part(f"m{n}", *[[s, 1.0] for s in range(60)]) for n in range(1_005)]
        keep(env, held, 0, 1, *names, note="too fast")
        keep(env, held, 1, 2, *names, note="too fast")
        assert len(env.plane.metrics(job)["series"]) == limits.METRIC_SERIES
        said = [e["message"] for e in env.plane.events(job) if e["kind"] == "metrics"]
        assert len(said) == 2
        assert said[0] == "too fast"
        assert "more than 1,000 series" in said[1]


def test_they_go_with_their_job() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit()
        held = begun(env, worker, job)
        keep(env, held, 0, 1, part("loss", [1, 1.0]))
        worker.finish(job)
        env.advance(5)
        env.plane.gc(older_than=0.0)
        with env.store.read() as reader:
            assert reader.metrics(job) == []
