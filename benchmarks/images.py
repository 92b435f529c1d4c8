"""What a job in an image costs beside the bare engine's own `run`: in turn, and back again.

Both run `true` in the same image, with the same limits, network and user; a plain job runs beside
them, since a machine with other work is slow in all three.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.scratch import GPULAYER
from gpulayer.worker.images.engine import own_limits
from tests.support.engines import ENGINES, Engine

PAIRS = 25
NEEDED = {"podman": ("podman", "runc", "conmon"), "docker": ("docker", "dockerd", "containerd")}


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    """Of each engine that is installed."""
    for kind, programs in NEEDED.items():
        if all(shutil.which(program) for program in programs):
            folder = Path(tempfile.mkdtemp(prefix="gpl-engine-"))
            engine = ENGINES[kind](folder)
            try:
                yield from _pairs(engine, {**environ, **engine.environ})
            finally:
                subprocess.run([GPULAYER, "stop", "--force"], env=environ, capture_output=True,
                               check=False)  # fmt: skip
                engine.close()


def _pairs(engine: Engine, environ: dict[str, str]) -> Iterator[Figure]:
    bare = [engine.kind, "run", "--rm", "--network", "host", *own_limits(), _name(engine), "true"]
    ours = [GPULAYER, "run", "--image", engine.pinned, "--", "true"]
    lines = {"bare": bare, "ours": ours, "plain": [GPULAYER, "run", "--", "true"]}
    taken: dict[str, list[float]] = {name: [] for name in lines}
    for number in range(PAIRS + 2):
        for name in list(lines) if number % 2 else reversed(list(lines)):
            begun = time.perf_counter()
            subprocess.run(lines[name], env=environ, capture_output=True, check=True)
            if number > 1:
                taken[name].append(time.perf_counter() - begun)
    more = [ours - bare for ours, bare in zip(taken["ours"], taken["bare"], strict=True)]
    kind = engine.kind
    yield Figure("run -- true, beside them", statistics.median(taken["plain"]), "s", PAIRS)
    yield Figure(f"{kind} run, true", statistics.median(taken["bare"]), "s", PAIRS, is_peer=True)
    yield Figure(f"run --image -- true, {kind}", statistics.median(taken["ours"]), "s", PAIRS)
    yield Figure(f"the same, more than {kind} run", statistics.median(more), "s", PAIRS, 0.15)


def _name(engine: Engine) -> str:
    """Docker runs what it built by its id alone."""
    name, _, digest = engine.pinned.partition("@")
    return digest if engine.kind == "docker" else f"{name}@{digest}"
