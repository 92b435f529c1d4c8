"""Floods: how fast a log comes through, and whether memory stays flat."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.scratch import GPULAYER

MEGABYTES = 500


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    flood = ["head", "-c", str(MEGABYTES * 1_000_000), "/dev/zero"]
    for name, argv in (
        ("lines", ["sh", "-c", f"yes | head -c {MEGABYTES}000000"]),
        ("one line", flood),
    ):
        begun = time.perf_counter()
        sink = subprocess.Popen(["wc", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        subprocess.run([GPULAYER, "run", "--", *argv], env=environ, stdout=sink.stdin, check=True)
        assert sink.communicate()[0].strip() == f"{MEGABYTES}000000".encode()
        rate = MEGABYTES / (time.perf_counter() - begun)
        yield Figure(f"{MEGABYTES} MB of {name} through run", rate, "/s", 1, 100.0)
        for process, mib in _peaks(environ):
            yield Figure(f"peak {process} after {name}", mib, "MiB", 1)


def _peaks(environ: dict[str, str]) -> Iterator[tuple[str, float]]:
    found = subprocess.run(
        [GPULAYER, "doctor", "--json"], env=environ, check=True, capture_output=True
    )
    for process in json.loads(found.stdout)["processes"]:
        for line in Path(f"/proc/{process['pid']}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                yield process["kind"], int(line.split()[1]) / 1024
