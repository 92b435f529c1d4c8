"""Ray: tasks by default; `actors` for an actor's method, `jobs` for its Jobs API."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time

import telling

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
BEGUN = time.perf_counter()


def tasks(way: str) -> None:
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR",
             log_to_driver=False)  # fmt: skip

    class Holder:
        def noop(self) -> None:
            return None

    task, command = ray.remote(telling.noop), ray.remote(telling.true)
    method = ray.remote(num_cpus=0)(Holder).remote().noop if way == "actors" else task
    ray.get(method.remote())
    telling.cold(BEGUN)
    telling.memory()
    telling.call("call", lambda: ray.get(method.remote()), 200, 20)
    telling.rate("map", lambda: ray.get([method.remote() for _ in range(10_000)]), 10_000)
    if way == "tasks":
        telling.call("command", lambda: ray.get(command.remote()), 100)
        telling.rate("commands", lambda: ray.get([command.remote() for _ in range(1000)]), 1000)
    ray.shutdown()


def jobs() -> None:
    bin_folder = os.path.dirname(sys.executable)
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ.update(token, PATH=f"{bin_folder}:{os.environ['PATH']}")
    subprocess.run(
        [f"{bin_folder}/ray", "start", "--head", "--node-ip-address=127.0.0.1", "--num-cpus=2",
         "--include-dashboard=true", "--dashboard-host=127.0.0.1", "--dashboard-port=28265",
         "--port=26379", "--disable-usage-stats"],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    from ray.job_submission import JobSubmissionClient

    client = None
    while client is None:
        try:
            client = JobSubmissionClient("http://127.0.0.1:28265")
            client.list_jobs()
        except Exception:  # whatever says that it is not up
            client = None
            time.sleep(0.1)

    def one() -> None:
        job = client.submit_job(entrypoint=telling.TRUE[0])
        while (state := str(client.get_job_status(job).value)) not in ("SUCCEEDED", "FAILED"):
            time.sleep(0.01)
        assert state == "SUCCEEDED"

    one()
    telling.cold(BEGUN)
    telling.memory()
    telling.call("command", one, 10, 1)


if __name__ == "__main__":
    jobs() if sys.argv[1:] == ["jobs"] else tasks(*sys.argv[1:])
