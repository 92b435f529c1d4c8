"""Large arrays, in CPU time: what a million elements cost to submit and to cancel, and the plane's
share of each element that is given out in a run and told of. Without workers' processes, so without
a peer."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator

from benchmarks.figures import Figure
from tests.support.env import Env

ELEMENTS, GIVEN, RUNS = 1_000_000, 100_000, 5
CALL = {"workload": {"kind": "function", "entrypoint": "m:f"}}


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    with Env() as env:
        before = _peak()
        jobs: list[str] = []
        spent = [
            _seconds(lambda: jobs.append(env.submit(array={"count": ELEMENTS}, **CALL)))
            for _ in range(RUNS)
        ]
        yield Figure(
            f"an array of {ELEMENTS:,} submitted", min(spent) * 1000, "ms", RUNS, budget=50
        )
        yield Figure("memory that takes", _peak() - before, "MB", RUNS, budget=50)
        cancelled = [_seconds(lambda job=job: env.plane.cancel(job).result(0)) for job in jobs]
        yield Figure("and cancelled", min(cancelled) * 1000, "ms", RUNS)
    with Env() as env:
        worker = env.worker(cores=1, takes_runs=True)
        job = env.submit(array={"count": GIVEN}, **CALL)

        def all_of_them() -> None:
            while env.state(job) != "succeeded":
                worker.report()
                env.run_pass()
                worker.acquire()
                worker.finish(job)

        yield Figure(
            "an element at the plane, given out in a run and told of",
            _seconds(all_of_them) * 1e6 / GIVEN,
            "us",
            GIVEN,
        )


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _peak() -> float:
    """MB that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
