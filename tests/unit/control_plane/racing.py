"""How most races begin."""

from __future__ import annotations

from tests.support.env import Env, EnvWorker


def running(env: Env, **spec: object) -> tuple[EnvWorker, str]:
    """A worker that runs one job."""
    worker = env.worker()
    job = env.submit(**spec)  # type: ignore[arg-type]
    env.run_pass()
    worker.acquire()
    worker.start(job)
    return worker, job
