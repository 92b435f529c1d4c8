"""Health, readiness and figures of a plane."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpulayer.api.handlers import Handlers
from gpulayer.api.server import App
from tests.support.app import ask
from tests.support.env import Env
from tests.support.served_plane import FINISH_SECONDS, Host, ServedPlane


@pytest.fixture
def env() -> Iterator[Env]:
    with Env(eager=True) as env:
        yield env


@pytest.fixture
def app(env: Env, tmp_path: Path) -> App:
    return App(Handlers(env.plane, env.artifacts, Host(str(tmp_path))))


def figures(app: App) -> dict[str, float]:
    """Sample -> value: `gpulayer_jobs{state="queued"}`."""
    told = ask(app, "GET", "/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(told.text):
        for sample in family.samples:
            labels = ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_a_plane_that_can_write_and_read_is_well(env: Env, app: App) -> None:
    before = env.store.commits
    env.submit(gpus=1)
    written = env.store.commits
    told = ask(app, "GET", "/healthz", is_private=False)
    assert (told.status, told.json()) == (200, {"status": "ok", "queued": 1})
    assert env.store.commits > written > before, "it went through the writer"
    assert ask(app, "GET", "/readyz", is_private=False).status == 200


def test_asking_often_costs_one_write(env: Env, app: App) -> None:
    ask(app, "GET", "/healthz", is_private=False)
    before = env.store.commits
    for _ in range(5):
        ask(app, "GET", "/healthz", is_private=False)
    assert env.store.commits - before <= 1


def test_a_plane_that_is_going_is_well_and_not_ready(env: Env, app: App) -> None:
    env.plane.leave()
    assert ask(app, "GET", "/healthz").status == 200
    told = ask(app, "GET", "/readyz")
    assert (told.status, told.json()["status"]) == (503, "going")


def test_a_plane_whose_store_is_closed_fails(tmp_path: Path) -> None:
    env = Env()
    env.close()
    app = App(Handlers(env.plane, env.artifacts, Host(str(tmp_path))))
    told = ask(app, "GET", "/healthz")
    assert (told.status, told.json()["status"]) == (503, "failing")


def test_a_writer_that_hangs_is_said_to_be_stuck(tmp_path: Path) -> None:
    plane = ServedPlane(tmp_path)
    hangs, gate = threading.Event(), threading.Event()

    def hang(tx: Any) -> None:
        hangs.set()
        gate.wait(60)

    try:
        app = App(Handlers(plane.plane, plane.artifacts, Host(str(tmp_path))))
        done = plane.store.write(hang)
        assert hangs.wait(FINISH_SECONDS)
        told = ask(app, "GET", "/healthz")
        assert (told.status, told.json()["status"]) == (503, "stuck")
        gate.set()
        done.result(FINISH_SECONDS)
        assert ask(app, "GET", "/healthz").status == 200
    finally:
        gate.set()
        plane.close()


def test_the_figures_follow_what_happens(env: Env, app: App) -> None:
    worker = env.worker(cores=1)
    env.run(worker, env.submit())
    env.clock.advance(0.2)
    env.run(worker, env.submit(), code=1)
    waiting = [env.submit(gpus=1) for _ in range(3)]
    found = figures(app)
    assert found['gpulayer_jobs{state="succeeded"}'] == 1
    assert found['gpulayer_jobs{state="failed"}'] == 1
    assert found['gpulayer_jobs{state="queued"}'] == len(waiting)
    assert found[f'gpulayer_queue_jobs{{shape="{env.job(waiting[0]).shape_id}"}}'] == 3
    assert found['gpulayer_queue_jobs{shape="other"}'] == 0
    assert found['gpulayer_workers{state="idle"}'] == 1
    assert found["gpulayer_tasks"] == 0
    assert found["gpulayer_dispatch_wait_seconds_count"] == 2
    assert found['gpulayer_dispatch_wait_seconds_bucket{le="+Inf"}'] == 2
    assert found["gpulayer_commits_total"] == env.store.commits


def test_many_shapes_are_few_labels(env: Env, app: App) -> None:
    for cores in range(1, 40):
        env.submit(cores=cores)
    shapes = {k: v for k, v in figures(app).items() if k.startswith("gpulayer_queue_jobs")}
    assert len(shapes) == 21
    assert sum(shapes.values()) == 39


def test_answers_are_counted_by_route_and_status(app: App) -> None:
    ask(app, "GET", "/v1/workers")
    ask(app, "GET", "/v1/jobs/nobody")
    ask(app, "GET", "/v1/workers", is_private=False)
    found = figures(app)
    assert found['gpulayer_http_requests_total{route="workers",status="200"}'] == 1
    assert found['gpulayer_http_requests_total{route="workers",status="401"}'] == 1
    assert found['gpulayer_http_requests_total{route="job",status="404"}'] == 1


def test_strangers_see_whether_it_is_well_and_no_figures(app: App) -> None:
    assert ask(app, "GET", "/metrics", is_private=False).status == 401
    assert ask(app, "GET", "/readyz", is_private=False).status == 200
