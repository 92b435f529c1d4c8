"""A package that calls itself torch and holds a launcher alone, so that most tests of distributed
jobs need neither the real one nor the seconds of its import.

It does what `torch.distributed.run` does to processes: a store that listens at the given port,
each rank in a session of its own with the variables of `local_elastic_agent.py`, SIGTERM to the
others' groups when one fails, exit code 1 whatever theirs was, no end where it is killed itself.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.local_home import LocalHome

VERSION = "2.13.0"
RUN = """
import argparse, os, signal, socket, subprocess, sys

parser = argparse.ArgumentParser()
for name in ("nnodes", "node_rank", "nproc_per_node", "master_port", "max_restarts"):
    parser.add_argument("--" + name, type=int)
for name in ("rdzv_backend", "rdzv_id", "rdzv_conf", "master_addr"):
    parser.add_argument("--" + name)
parser.add_argument("--no_python", action="store_true")
parser.add_argument("program", nargs=argparse.REMAINDER)
said = parser.parse_args()
procs = said.nproc_per_node
if said.node_rank == 0:
    store = socket.socket()
    store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    store.bind(("", said.master_port))
    store.listen()


def start(local):
    own = {
        "RANK": said.node_rank * procs + local, "LOCAL_RANK": local,
        "WORLD_SIZE": said.nnodes * procs, "LOCAL_WORLD_SIZE": procs,
        "GROUP_RANK": said.node_rank, "MASTER_ADDR": said.master_addr.strip("[]"),
        "MASTER_PORT": said.master_port,
    }
    environ = {**os.environ, **{name: str(value) for name, value in own.items()}}
    return subprocess.Popen(said.program, env=environ, start_new_session=True)


def end(signum, frame):
    raise SystemExit(signum)


for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(signum, end)
ranks = [start(local) for local in range(procs)]
living = {rank.pid: rank for rank in ranks}
code = 0
sent = signal.SIGTERM
try:
    while living and not code:
        pid, status = os.wait()
        code = 1 if living.pop(pid, None) and status else 0
except SystemExit as stop:
    code, sent = 1, stop.code
for pid in living:
    os.killpg(pid, sent)
for rank in living.values():
    rank.wait()
if code:
    print("Root Cause (first observed failure): a rank", file=sys.stderr)
sys.exit(code)
"""

FILES = {
    "__init__.py": "",
    "distributed/__init__.py": "",
    "version.py": f"__version__ = {VERSION!r}\ncuda = None\n",
    "distributed/run.py": RUN,
}
"""Of the package."""


def install(folder: Path) -> str:
    """A virtual environment in `folder`, found without activation; its Python."""
    venv = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)}))
    (site / "torch/distributed").mkdir(parents=True)
    for name, text in FILES.items():
        (site / "torch" / name).write_text(text)
    about = site / f"torch-{VERSION}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n")
    return str(venv / "bin" / "python")


def home_with_launcher() -> LocalHome:
    """A home whose work folder has it."""
    home = LocalHome()
    install(home.work)
    return home
