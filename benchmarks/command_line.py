"""How long a person waits for the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.figures import Figure, cpu, wall
from benchmarks.scratch import GPULAYER


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    bare = wall([sys.executable, "-c", "pass"], environ, 15)
    yield Figure("python -c pass", bare, "s", 15, is_peer=True)
    yield Figure("gpulayer --help, CPU", cpu([GPULAYER, "--help"], environ, 15), "s", 15, 0.10)
    loaded = wall([sys.executable, "-c", "import gpulayer"], environ, 15)
    yield Figure("import gpulayer", loaded - bare, "s", 15, 0.060)

    def cold() -> float:
        subprocess.run([GPULAYER, "stop"], env=environ, capture_output=True, check=False)
        return wall_once([GPULAYER, "run", "--", "true"], environ)

    times = sorted(cold() for _ in range(7))
    yield Figure("run -- true, nothing running", times[3], "s", 7, 0.4)
    yield Figure("run -- true, plane up", wall([GPULAYER, "run", "--", "true"], environ, 20), "s",
                 20, 0.1)  # fmt: skip
    for verb in (["ps"], ["status", "last"], ["logs", "last"]):
        taken = wall([GPULAYER, *verb], environ, 15)
        yield Figure(f"gpulayer {' '.join(verb)}", taken, "s", 15, 0.15)


def wall_once(argv: list[str], environ: dict[str, str]) -> float:
    import time

    begun = time.perf_counter()
    subprocess.run(argv, env=environ, capture_output=True, check=True)
    return time.perf_counter() - begun
