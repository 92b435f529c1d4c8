"""What `why` and `plan` tell of a job that waits, from a whole plane."""

from __future__ import annotations

from typing import Any

from gpulayer.cli.outlook import lines
from tests.support.env import Env, EnvWorker


def busy_worker(env: Env, **job: Any) -> EnvWorker:
    """One of its two GPUs is taken."""
    worker = env.worker(gpus=2, cores=4)
    running = env.submit(gpus=1, **job)
    env.run_pass()
    worker.acquire()
    worker.start(running)
    return worker


def told(env: Env, job: str) -> list[str]:
    """As `why` prints it; times of day are left to others."""
    outlook = env.plane.outlook(job)
    return [] if outlook is None else list(lines(outlook, env.clock.now()))


def texts(plan: dict[str, Any]) -> list[str]:
    return [one["text"] for one in plan["outlook"]["suggestions"]]


def test_the_first_in_line_begins_by_the_end_of_the_limit_that_it_waits_for() -> None:
    with Env() as env:
        busy_worker(env, timeout_seconds=600)
        job = env.submit(gpus=2)
        env.run_pass()
        (start,) = [line for line in told(env, job) if line.startswith("starts: ")]
        assert start.startswith("starts: by ")
        assert start.endswith(" at the latest, in 10 min at most")


def test_without_a_limit_it_is_said_whose() -> None:
    with Env() as env:
        busy_worker(env)
        job = env.submit(gpus=2)
        env.run_pass()
        running = next(j["id"] for j in env.plane.jobs() if j["state"] == "running")
        assert told(env, job)[0] == f"starts: no estimate: {running} has no time limit"


def test_a_job_that_runs_or_has_ended_has_no_outlook() -> None:
    with Env() as env:
        worker = busy_worker(env)
        job = env.submit(gpus=1)
        assert told(env, job) == ["starts: any moment now"], "with the next pass"
        env.run_pass()
        assert env.plane.outlook(job) is None
        worker.acquire()
        worker.finish(job)
        assert env.plane.outlook(job) is None


def test_a_plan_names_the_smallest_changes_and_when_they_would_help() -> None:
    with Env() as env:
        busy_worker(env, timeout_seconds=600)
        plan = env.plane.plan(env.spec(gpus=4), {})
        assert texts(plan) == ["--gpus 2", "--gpus 1"]
        later, now = (
            one["start"]["at"] - env.clock.now() for one in plan["outlook"]["suggestions"]
        )
        assert (later, now) == (600, 0)


def test_changes_that_are_needed_together_are_said_to_be() -> None:
    with Env() as env:
        env.worker(gpus=2, cores=4)
        (one,) = env.plane.plan(env.spec(gpus=4, cores=16), {})["outlook"]["suggestions"]
        assert (one["text"], one["together"]) == ("--gpus 2 --cpus 4", True)
        assert one["set"] == {"resources.gpu_count": 2, "resources.cpu_cores": 4.0}


def test_a_plan_comes_behind_what_is_queued() -> None:
    with Env() as env:
        busy_worker(env, timeout_seconds=600)
        first = env.submit(gpus=2)
        env.run_pass()
        plan = env.plane.plan(env.spec(gpus=1), {})
        assert plan["outcome"] == "waiting"
        assert f"waits behind the reservation of {first}" in plan["summary"]
        assert texts(plan) == ["--timeout 600"]
        assert env.plane.plan(env.spec(gpus=1, timeout_seconds=600), {})["outcome"] == "placed"


def test_one_more_worker_is_described_by_what_the_job_needs() -> None:
    with Env() as env:
        env.worker()
        spec = env.spec(
            placement={"target": "remote"},
            resources={
                "accelerator": "cuda",
                "gpu_count": 1,
                "frameworks": {"torch": ">=2.2"},
                "gpu_models": ["h100"],
            },
        )
        assert texts(env.plane.plan(spec, {})) == [
            "one more worker with 1 free GPU (h100), 1 free core, torch>=2.2"
        ]
