"""Ourselves, measured by the same program as the others: `embedded` or on the `local` plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import telling

BEGUN = time.perf_counter()


def main(place: str) -> None:
    folder = tempfile.mkdtemp()
    os.environ.update(GPULAYER_HOME=f"{folder}/home", XDG_RUNTIME_DIR=folder)
    os.chdir(folder)
    import gpulayer as gl

    noop = gl.remote(telling.noop)
    true = {"workload": {"kind": "command", "command": telling.TRUE}}
    thousand = {**true, "array": {"count": 1000}}
    with gl.connect(embedded=":memory:" if place == "embedded" else False) as client:
        noop.remote(0)
        telling.cold(BEGUN)
        telling.memory(one["pid"] for one in said("doctor", "--json")["processes"])
        telling.call("call", lambda: noop.remote(0), 100)
        telling.call("fresh", lambda: noop.remote(0), 30)  # each call is forked
        telling.call("command", lambda: client.submit(telling.TRUE).wait(), 100)
        telling.rate("commands", lambda: client.submit_specs([thousand])[0].wait(), 1000)
        telling.rate("jobs", lambda: gl.gather(*client.submit_specs([true] * 1000)), 1000)
        telling.rate("map", lambda: list(noop.map(range(10_000))), 10_000, 1)
        telling.rate("submits", lambda: gl.gather(*[noop.submit(i) for i in range(1000)]), 1000, 1)
    said("stop", "--force", "--json")


def said(*words: str) -> Any:
    line = [f"{sys.prefix}/bin/gpulayer", *words]
    return json.loads(subprocess.run(line, capture_output=True, check=False).stdout or "null")


if __name__ == "__main__":
    main(*sys.argv[1:])
