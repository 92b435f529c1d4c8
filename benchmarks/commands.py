"""Many short commands, each with a record, a log and an exit code, beside what keeps none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial

import gpulayer as gl
from benchmarks.figures import Figure, batch, calls

COMMANDS = 1_000


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    items = "\n".join(map(str, range(COMMANDS)))

    def xargs() -> None:
        subprocess.run(["xargs", "-P2", "-n1", "true"], input=items, text=True, check=True)

    def serial() -> None:
        for _ in range(COMMANDS):
            subprocess.run(["true"], check=True)

    yield Figure("1,000 x true, xargs -P2", batch(xargs, COMMANDS), "/s", 3, is_peer=True)
    yield Figure("1,000 x true, subprocess.run", batch(serial, COMMANDS), "/s", 3, is_peer=True)
    for name, place in (("local plane", False), ("embedded", ":memory:")):
        with gl.connect(embedded=place) as client:
            call = calls(partial(_one, client), 200)
            yield Figure(f"one command, {name}", call * 1000, "ms", 200, 3.0 if place else None)
            rate = batch(partial(_many, client), COMMANDS)
            yield Figure(f"1,000 x true, {name}", rate, "/s", 3, 600.0)
            rate = batch(partial(_array, client), COMMANDS)
            budget = 1000.0 if place else 700.0
            yield Figure(f"1,000 x true as one array, {name}", rate, "/s", 3, budget)


def _one(client: gl.Client) -> None:
    client.submit(["true"]).wait()


def _array(client: gl.Client) -> None:
    work = {"kind": "command", "command": ["true"]}
    (job,) = client.submit_specs([{"workload": work, "array": {"count": COMMANDS}}])
    job.wait()


def _many(client: gl.Client) -> None:
    spec = {"workload": {"kind": "command", "command": ["true"]}}
    gl.gather(*client.submit_specs([spec] * COMMANDS))
