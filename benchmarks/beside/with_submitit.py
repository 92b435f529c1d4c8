"""submitit on this machine, without Slurm. It looks once a second whether a job has ended."""

from __future__ import annotations

import tempfile
import time

import telling

BEGUN = time.perf_counter()


def main() -> None:
    import submitit

    executor = submitit.LocalExecutor(folder=tempfile.mkdtemp())
    executor.update_parameters(timeout_min=5)
    true = submitit.helpers.CommandFunction(telling.TRUE, verbose=False)
    executor.submit(telling.noop).result()
    telling.cold(BEGUN)
    telling.call("fresh", lambda: executor.submit(telling.noop).result(), 5, 1)
    telling.call("command", lambda: executor.submit(true).result(), 5, 1)


if __name__ == "__main__":
    main()
