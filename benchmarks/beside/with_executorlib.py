"""executorlib: two workers that live on, and a process for each call."""

from __future__ import annotations

import os
import sys
import time

import telling

BEGUN = time.perf_counter()


def main() -> None:
    os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    from executorlib import SingleNodeExecutor

    with SingleNodeExecutor(max_workers=2, block_allocation=True) as executor:

        def many() -> None:
            for future in [executor.submit(telling.noop, i) for i in range(10_000)]:
                future.result()

        executor.submit(telling.noop).result()
        telling.cold(BEGUN)
        telling.memory()
        telling.call("call", lambda: executor.submit(telling.noop).result(), 50)
        telling.call("command", lambda: executor.submit(telling.true).result(), 30)
        telling.rate("submits", many, 10_000, 1)
    with SingleNodeExecutor(max_workers=2) as executor:
        telling.call("fresh", lambda: executor.submit(telling.noop).result(), 10, 1)


if __name__ == "__main__":
    main()
