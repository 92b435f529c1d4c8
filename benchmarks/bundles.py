"""A folder of ten thousand files as a bundle: at first, and again with nothing changed.

Beside it the least that any memory costs here: one lstat for each file.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figures import Figure, calls
from gpulayer.artifacts.bundle import build_source_bundle
from gpulayer.artifacts.seen import SeenFolders

FOLDERS, EACH = 100, 100
COUNT = FOLDERS * EACH
ROUNDS = 9


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as place:
        for kind in ("plain", "repository"):
            yield from _of(_made(Path(place), kind), kind, Path(place, "seen"))


def _made(place: Path, kind: str) -> Path:
    top = place / kind
    for number in range(FOLDERS):
        folder = top / f"part{number // 10}" / f"{number % 10}"
        folder.mkdir(parents=True)
        for index in range(EACH):
            (folder / f"file{index:02}.py").write_text(f"x = {number * EACH + index}\n" * 20)
    (top / ".gitignore").write_text("*.log\nbuild/\n*.o\n/data/\n")
    if kind == "repository":
        subprocess.run(["git", "init", "-q"], cwd=top, check=True)
        subprocess.run(["git", "add", "-A"], cwd=top, check=True)
    return top


def _of(top: Path, kind: str, place: Path) -> Iterator[Figure]:
    # As if it were read some seconds from now: what is young is not believed.
    def build() -> None:
        build_source_bundle(top, seen=SeenFolders(str(place), time.time() + 10))

    paths = [os.path.join(at, name) for at, _, names in os.walk(top) for name in names]
    paths = [path for path in paths if "/.git/" not in path]
    begun = time.perf_counter()
    build()
    yield Figure(f"bundle of {COUNT:,} files, {kind}", time.perf_counter() - begun, "s", 1, 1.0)
    yield Figure(f"the same again, unchanged, {kind}", calls(build, ROUNDS), "s", ROUNDS, 0.050)
    looks = calls(lambda: [os.lstat(path) for path in paths], ROUNDS)
    yield Figure(f"{COUNT:,} times lstat, {kind}", looks, "s", ROUNDS, is_peer=True)
