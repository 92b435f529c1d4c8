"""HyperQueue from its wheel: server and worker within this process. Its client asks once a
second whether a job has ended, so one command tells of that, not of the queue."""

from __future__ import annotations

import os
import sys
import tempfile
import time

import telling

BEGUN = time.perf_counter()


def main() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    import hyperqueue.client
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig

    hyperqueue.client.create_progress_callback = lambda: lambda jobs: None
    client = LocalCluster(worker_config=WorkerConfig(cores=2)).client()

    def run(count: int, kept: bool = False) -> None:
        job = Job(default_workdir=folder)
        out = f"{folder}/out-%{{TASK_ID}}" if kept else None
        for _ in range(count):
            job.program(telling.TRUE, stdout=out, stderr=out)
        client.wait_for_jobs([client.submit(job)])

    run(1)
    telling.cold(BEGUN)
    telling.memory()
    telling.call("command", lambda: run(1), 5, 1)
    telling.rate("commands", lambda: run(1000, kept=True), 1000, 2)


if __name__ == "__main__":
    main()
    os._exit(0)  # the cluster's threads do not end by themselves
