"""What an idle plane costs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.scratch import GPULAYER


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    subprocess.run([GPULAYER, "run", "--", "true"], env=environ, check=True, capture_output=True)
    found = subprocess.run(
        [GPULAYER, "doctor", "--json"], env=environ, check=True, capture_output=True
    )
    total = 0.0
    for process in json.loads(found.stdout)["processes"]:
        mib = _rss(process["pid"])
        total += mib
        yield Figure(f"idle {process['kind']}", mib, "MiB", 1)
    yield Figure("idle plane, agent and supervisor", total, "MiB", 1, 90.0)


def _rss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
