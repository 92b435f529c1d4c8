"""How a program under a peer's Python measures and tells: a line of JSON for each figure.

The standard library alone, from Python 3.8: a peer's environment has nothing of ours.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

TRUE = ["/bin/true"]
MARK = "GPULAYER_BENCH_PEER"


def noop(i=0):
    return None


def true(i=0):
    import subprocess

    return subprocess.run(TRUE, check=True).returncode


def tell(slug: str, value: float, count: int) -> None:
    """One figure: seconds are told as milliseconds."""
    sys.stdout.write(json.dumps({"measure": slug, "value": value, "count": count}) + "\n")
    sys.stdout.flush()


def call(slug, action, count, warm=3):
    """The median of `count` calls."""
    for _ in range(warm):
        action()
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begun)
    tell(slug, statistics.median(taken) * 1000, count)


def rate(slug, action, size, runs=3):
    """The median over whole runs of things a second."""
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        action()
        taken.append(time.perf_counter() - begun)
    tell(slug, size / statistics.median(taken), runs)


def cold(begun: float) -> None:
    """From before the import until the first result."""
    tell("cold", (time.perf_counter() - begun) * 1000, 1)


def marked(run: str) -> list[int]:
    """The other processes that a run started, and their children."""
    mark = f"{MARK}={run}".encode()
    found, parent = set(), {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.add(int(name))
        except OSError:
            continue
    grown = True
    while grown:  # one that gives itself a title may have overwritten its environment
        more = {pid for pid, above in parent.items() if above in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {os.getpid()})


def memory(others=()) -> None:
    """MiB of all processes of this run, this one and `others` too; of a page that several share
    each has its part. After two seconds of doing nothing."""
    time.sleep(2)
    total = 0
    for pid in {os.getpid(), *marked(os.environ[MARK]), *others}:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(row.split()[1]) for row in file if row.startswith("Pss:"))
        except OSError:
            continue
    tell("memory", total / 1024, 1)
