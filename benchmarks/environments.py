"""What the environment of a job costs: made, and used again. As its own event tells it.

With uv, from its download cache: each set is made once before it counts. A stand-in for torch is in
the Python below, as the real one would: nothing of it may be installed again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure
from benchmarks.scratch import GPULAYER

BELOW = {"torch": "2.9.0", "torchvision": "0.24.0", "numpy": "2.3.0", "pillow": "12.0.0"}
MADE, USED = 5, 20


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="gpulayer-bench-") as folder:
        base = _base(Path(folder) / "base")
        path = os.pathsep.join((str(base / "bin"), environ["PATH"]))
        environ = {**environ, "PATH": path, "VIRTUAL_ENV": str(base)}
        for name, budget in (("tqdm", 0.6), ("timm", 2.0)):
            if not _prepared(environ, name):
                return  # there is no index here
            times = [_made(environ, name) for _ in range(MADE)]
            yield Figure(f"environment: {name}, made", median(times), "s", MADE, budget)
            times = [_prepared(environ, name) for _ in range(USED)]
            yield Figure(f"environment: {name}, again", median(times), "s", USED, 0.005)
            yield Figure(f"environment: {name}, again, best", min(times), "s", USED, 0.005)


def _base(folder: Path) -> Path:
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", folder], check=True)
    [site] = (folder / "lib").glob("*/site-packages")
    for name, version in BELOW.items():
        about = site / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    return folder


def _made(environ: dict[str, str], name: str) -> float:
    subprocess.run([GPULAYER, "env", "rm", "--unused", "-q"], env=environ, check=True)
    return _prepared(environ, name)


def _prepared(environ: dict[str, str], name: str) -> float:
    """Seconds; 0 where it could not be."""
    run = [GPULAYER, "run", "-r", name, "--", "true"]
    done = subprocess.run(run, env=environ, capture_output=True, check=False)
    if done.returncode:
        return 0.0
    told = subprocess.run(
        [GPULAYER, "status", "--json", "last"], env=environ, capture_output=True, check=True
    )
    return float(json.loads(told.stdout)["job"]["preparation"]["seconds"])
