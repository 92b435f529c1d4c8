"""Run every measure and print a table; `--json FILE` keeps the figures, `--only WORD` selects.

`--peers FOLDER` measures other systems beside ours and nothing else, those that `--install-peers
FOLDER` has put there; `--svg FILE` draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks import (
    arrays,
    bundles,
    channel,
    command_line,
    commands,
    environments,
    images,
    logs,
    memory,
    plane,
    scheduling,
    store,
    traces,
    transfers,
)
from benchmarks.beside import peers, table
from benchmarks.figures import Figure
from benchmarks.scratch import scratch_home

SUITES: dict[str, Callable[[dict[str, str]], Iterator[Figure]]] = {
    "command_line": command_line.figures,
    "commands": commands.figures,
    "plane": plane.figures,
    "scheduling": scheduling.figures,
    "traces": traces.figures,
    "arrays": arrays.figures,
    "memory": memory.figures,
    "environments": environments.figures,
    "logs": logs.figures,
    "channel": channel.figures,
    "store": store.figures,
    "images": images.figures,
    "bundles": bundles.figures,
    "transfers": transfers.figures,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", metavar="WORD", default="")
    parser.add_argument("--install-peers", metavar="FOLDER", type=Path)
    parser.add_argument("--peers", metavar="FOLDER", type=Path)
    parser.add_argument("--svg", metavar="FILE", type=Path)
    wanted = parser.parse_args()
    if wanted.install_peers:
        peers.install(wanted.install_peers)
    found: list[Figure] = []
    machine = {"cores": os.cpu_count(), "python": platform.python_version(),
               "system": platform.platform()}  # fmt: skip
    if wanted.peers:
        for figure in peers.figures(wanted.peers):
            found.append(figure)
            _show(figure)
        sys.stdout.write("\n".join(table.rows(found)) + "\n")
    for name, suite in SUITES.items():
        if wanted.only in name and not (wanted.peers or wanted.install_peers):
            with scratch_home() as environ:
                for figure in suite(environ):
                    found.append(figure)
                    _show(figure)
    if wanted.svg:
        on = f"{machine['cores']} cores, {machine['system']}, Python {machine['python']}"
        wanted.svg.write_text(table.picture(found, on))
    if wanted.json:
        with open(wanted.json, "w") as file:
            json.dump({"machine": machine, "figures": [asdict(f) for f in found]}, file, indent=2)


def _show(figure: Figure) -> None:
    budget = "" if figure.budget is None else f"  budget {figure.budget:g} {figure.unit}"
    mark = {None: " ", True: "+", False: "-"}[figure.is_met]
    kind = "peer" if figure.is_peer else ""
    name = f"{figure.measure}: {figure.name}" if figure.measure else figure.name
    sys.stdout.write(
        f"{mark} {name:<52} {figure.value:>10.3f} {figure.unit:<4} n={figure.count:<5}"
        f"{budget} {kind}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
