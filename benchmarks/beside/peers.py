"""Which systems are measured beside ours, what each does for a task, and how they are run."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.beside import telling
from benchmarks.beside.measures import MEASURES
from benchmarks.figures import Figure, batch, calls, wall

HERE = Path(__file__).parent
SECONDS = 300
"""A peer that takes longer is ended, and what it told by then is kept."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    does: str
    """For each task: a record that outlives the client, its output kept, a process of its own;
    and whether the record is synced to disk. What is not said is not done."""
    package: str = ""
    """From the package index, into an environment of its own."""
    script: str = ""
    words: tuple[str, ...] = ()
    cli: str = ""
    needs: tuple[str, ...] = ()
    """Programs of the system."""

    def home(self, folder: Path) -> Path:
        return folder / self.package.partition("[")[0] if self.package else Path(sys.prefix)

    def is_installed(self, folder: Path) -> bool:
        return not self.package or _whole(self.home(folder)).exists()

    def is_there(self, folder: Path) -> bool:
        return self.is_installed(folder) and all(map(shutil.which, self.needs))


def _whole(home: Path) -> Path:
    """Is there once an environment has all that it is to have."""
    return home / "installed"


OURS = "gpulayer"
ALL = "record, output, process"
DAEMONS = ("munged", "slurmctld", "slurmd", "srun")
PEERS = (
    Peer(OURS, ALL, script="with_gpulayer.py", words=("embedded",), cli="gpulayer"),
    Peer(f"{OURS}, local plane", ALL, script="with_gpulayer.py", words=("local",)),
    Peer("Ray tasks", "nothing", "ray[default]", "with_ray.py", ("tasks",), "ray"),
    Peer("Ray actors", "nothing", "ray[default]", "with_ray.py", ("actors",)),
    Peer("Ray Jobs", ALL, "ray[default]", "with_ray.py", ("jobs",)),
    Peer("Dask", "nothing", "distributed", "with_dask.py", cli="dask"),
    Peer("Parsl", "nothing", "parsl", "with_parsl.py"),
    Peer("executorlib", "nothing", "executorlib", "with_executorlib.py"),
    Peer("HyperQueue", "output, process", "hyperqueue", "with_hyperqueue.py"),
    Peer("submitit", "output, process", "submitit", "with_submitit.py"),
    Peer("torchx", "output, process", "torchx", "with_torchx.py", cli="torchx"),
    Peer("Slurm", ALL, script="with_slurm.py", cli="srun", needs=DAEMONS),
    Peer("SkyPilot", ALL, "skypilot", cli="sky"),
    Peer("dstack", ALL, "dstack", cli="dstack"),
)


def install(folder: Path) -> None:
    """An environment for each peer that lacks one, from the package index: about 1.5 GB and four
    minutes. May be called again after it was cut."""
    for peer in PEERS:
        if peer.is_installed(folder):
            continue
        home = peer.home(folder)
        sys.stdout.write(f"installing {peer.package}\n")
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        pip = [home / "bin" / "python", "-m", "pip", "install", "-q", peer.package]
        if subprocess.run(pip, check=False).returncode == 0:
            _whole(home).touch()
        else:
            sys.stdout.write(f"{peer.package} cannot be installed, and is left out\n")
    if not all(map(shutil.which, DAEMONS)):
        sys.stdout.write("Slurm is left out: apt-get install slurm-wlm munge\n")


def figures(folder: Path) -> Iterator[Figure]:
    """What we, the standard library, the shell and each installed peer reach."""
    yield from _plain()
    for peer in PEERS:
        if not peer.is_there(folder):
            continue
        if peer.script:
            yield from _driven(peer, folder)
        if peer.cli:
            own = peer.home(folder) / "bin" / peer.cli
            line = [str(own) if own.exists() else peer.cli, "--help"]
            yield _figure(peer.name, "help", wall(line, os.environ, 3) * 1000, 3)


def _figure(name: str, measure: str, value: float, count: int) -> Figure:
    return Figure(name, value, MEASURES[measure].unit, count, measure=measure,
                  is_peer=not name.startswith(OURS))  # fmt: skip


def _plain() -> Iterator[Figure]:
    pool = "ProcessPoolExecutor"
    begun = time.perf_counter()
    with ProcessPoolExecutor(2) as kept:
        kept.submit(telling.noop).result()
        yield _figure(pool, "cold", (time.perf_counter() - begun) * 1000, 1)
        once = calls(lambda: kept.submit(telling.noop).result(), 200)
        yield _figure(pool, "call", once * 1000, 200)
        chunks = batch(lambda: list(kept.map(telling.noop, range(10_000), chunksize=100)), 10_000)
        yield _figure(f"{pool}, chunks of 100", "map", chunks, 3)
        one_by_one = batch(lambda: list(kept.map(telling.noop, range(10_000))), 10_000)
        yield _figure(pool, "map", one_by_one, 3)
        alone = batch(
            lambda: [f.result() for f in [kept.submit(telling.noop) for _ in range(10_000)]], 10_000
        )
        yield _figure(pool, "submits", alone, 3)
    with ProcessPoolExecutor(2, max_tasks_per_child=1) as fresh:
        each = calls(lambda: fresh.submit(telling.noop).result(), 20)
        yield _figure(f"{pool}, a process each", "fresh", each * 1000, 20)
    once = calls(lambda: subprocess.run(telling.TRUE, check=True), 100)
    yield _figure("subprocess.run", "command", once * 1000, 100)
    items = "\n".join(map(str, range(1000)))
    xargs = batch(
        lambda: subprocess.run(["xargs", "-P2", "-n1", "true"], input=items, text=True, check=True),
        1000,
    )
    yield _figure("xargs -P2", "commands", xargs, 3)


def _driven(peer: Peer, folder: Path) -> Iterator[Figure]:
    """What a peer's program tells, line by line; nothing of it is left running."""
    mark = secrets.token_hex(8)
    environ = os.environ | {telling.MARK: mark, "PYTHONPATH": str(HERE)}
    line = [peer.home(folder) / "bin" / "python", HERE / peer.script, *peer.words]
    # Files, not pipes: what a peer leaves running would hold those open.
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as complaint:
        try:
            done = subprocess.run(line, env=environ, stdin=subprocess.DEVNULL, stdout=told,
                                  stderr=complaint, timeout=SECONDS, check=False)  # fmt: skip
            ended = f"ended with {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            ended = f"was ended after {SECONDS} s"
        finally:
            _sweep(mark)
        complaint.seek(0)
        if ended:
            sys.stdout.write(f"  {peer.name} {ended}: {complaint.read()[-300:]}\n")
        told.seek(0)
        for said in (json.loads(row) for row in told if row.startswith('{"measure"')):
            yield _figure(peer.name, said["measure"], said["value"], said["count"])


def _sweep(mark: str) -> None:
    """End all processes that carry the run's mark, however far they have gone from it."""
    for pid in telling.marked(mark):
        os.kill(pid, signal.SIGKILL)
