"""Functions as jobs, beside the standard library's own pool."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import gpulayer as gl
from benchmarks.figures import Figure, calls


def double(x: int) -> int:
    return 2 * x


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    with ProcessPoolExecutor(2, max_tasks_per_child=1) as pool:
        fresh = calls(lambda: pool.submit(double, 1).result(), 20)
        yield Figure("a call, ProcessPoolExecutor, new process", fresh * 1000, "ms", 20,
                     is_peer=True)  # fmt: skip
    job = gl.remote(double)
    with gl.connect(embedded=":memory:"):
        yield Figure("a call, embedded, new process", calls(lambda: job.remote(1), 30) * 1000,
                     "ms", 30)  # fmt: skip
