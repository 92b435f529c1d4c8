"""Distributed jobs whose ranks GPUlayer starts itself, on a Python without torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_home import SECONDS, LocalHome
from tests.support.programs import Programs

pytestmark = pytest.mark.e2e

LAUNCH = [sys.executable, "-m", "gpulayer", "launch", "--launcher", "direct"]
OWN = """
    RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME
    ROLE_WORLD_SIZE MASTER_ADDR TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS
    TORCH_NCCL_ASYNC_ERROR_HANDLING
""".split()
"""Variables of torchrun whose values are known beforehand."""
STAY = """
    import os, signal
    with open("pid." + os.environ["RANK"] + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.replace(file.name, file.name[:-5])
    signal.pause()
"""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def words(home: LocalHome, *flags: str, text: str) -> list[str]:
    Programs(home).write(text, "train.py")
    return [*LAUNCH, *flags, "train.py"]


def launch(
    home: LocalHome, *flags: str, text: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str]
    line = words(home, *flags, text=text)
    done = home.typed(*line, env={**home.environ, **environ}, text=True)
    return done


def newest(home: LocalHome) -> dict[str, Any]:
    found: dict[str, Any] = home.wire().call("GET", "/v1/jobs/last")
    return found


def test_each_rank_has_what_torchrun_would_set_and_nothing_of_an_outer_launcher(
    home: LocalHome,
) -> None:
    text = f"""
        import json, os
        e = os.environ
        assert e["MASTER_PORT"].isdigit() and e["TORCHELASTIC_RUN_ID"]
        assert not {{"SLURM_PROCID", "PET_NNODES", "TORCHELASTIC_USE_AGENT_STORE"}} & set(e)
        print(json.dumps([e[name] for name in {OWN!r}]))
    """
    strays = {"RANK": "7", "SLURM_PROCID": "7", "PET_NNODES": "9", "MASTER_ADDR": "lab"}
    two = ["--nodes=2", "--procs-per-node=2", "--cpus=0.5"]
    done = launch(home, *two, text=text, **strays)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(line) for line in done.stdout.splitlines()) == [
        [f"{rank}", f"{rank % 2}", "4", "2", f"{rank // 2}", "2", f"{rank}", "default", "4",
         "127.0.0.1", "0", "0", "1"]
        for rank in range(4)
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["exit", "signal"])
def test_the_first_failure_is_the_jobs_and_how_each_rank_ended_is_told(
    home: LocalHome, how: str
) -> None:
    text = f"""
        import os, signal, sys
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGSEGV) if {how == "signal"} else sys.exit(7)
        if os.environ["RANK"] == "0":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        signal.pause()
    """
    done = launch(home, "--procs-per-node=3", text=text)
    assert done.returncode == (-signal.SIGSEGV if how == "signal" else 7)
    job = newest(home)
    ended = "ended by SIGSEGV" if how == "signal" else "exit code 7"
    assert (job["state"], job["message"]) == ("failed", f"rank 1: {ended}")
    ranks = [(r["rank"], r["message"]) for r in job["result"]["error"]["ranks"]]
    stopped = "stopped because of rank 1"
    assert [r for r in ranks if r[0] != 0] == [(1, ended), (2, stopped)]
    assert (0, stopped) in ranks  # whatever code it chose then
    shown = subprocess.run(
        [sys.executable, "-m", "gpulayer", "status", "last"],
        cwd=home.work, env=home.environ, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert f"rank 2:     {stopped}\n" in shown


@pytest.mark.parametrize("victim", ["rank", "shim", "leader", "supervisor"])
def test_nothing_is_left_whoever_is_killed(home: LocalHome, victim: str) -> None:
    files = [home.work / f"pid.{rank}" for rank in (0, 1)]
    with subprocess.Popen(
        words(home, "--procs-per-node=2", text=STAY),
        cwd=home.work, env=home.environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        home.until(lambda: all(file.exists() for file in files))
        ranks = [int(file.read_text()) for file in files]
        shims = [parent(rank) for rank in ranks]
        leader = parent(shims[0])
        chosen = {"rank": ranks[1], "shim": shims[1], "leader": leader,
                  "supervisor": home.pid("supervisor")}  # fmt: skip
        os.kill(chosen[victim], signal.SIGKILL)
        code = running.wait(SECONDS)
    for file in files:
        file.unlink()
    assert code == (125 if victim == "supervisor" else -signal.SIGKILL)
    home.until(lambda: not any(Path(f"/proc/{p}").exists() for p in [*ranks, *shims, leader]))
    home.until(lambda: newest(home)["state"] == "failed")
    if victim in ("rank", "shim"):
        assert newest(home)["message"] == "rank 1: ended by SIGKILL"


def test_an_interrupt_reaches_each_rank_once_and_ends_all(home: LocalHome) -> None:
    text = """
        import os, signal
        ours = {signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ours)
        open("ready." + os.environ["RANK"], "w").close()
        signal.sigwait(ours)
        print("got", 1 if signal.sigtimedwait(ours, 0.5) is None else 2, flush=True)
    """
    for rank in (0, 1):
        (home.work / f"ready.{rank}").unlink(missing_ok=True)
    with subprocess.Popen(
        words(home, "--procs-per-node=2", text=text),
        cwd=home.work, env=home.environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as running:  # fmt: skip
        home.until(lambda: all((home.work / f"ready.{rank}").exists() for rank in (0, 1)))
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=SECONDS)
    assert said.splitlines() == ["got 1", "got 1"]
    assert newest(home)["state"] == "cancelled"


def test_a_function_is_started_so_too(home: LocalHome) -> None:
    text = """
        import os
        import gpulayer as gl

        def train(scale):
            return scale * int(os.environ["WORLD_SIZE"])

        if __name__ == "__main__":
            job = gl.launch(train, procs_per_node=2, launcher="direct", args=[10])
            print(job.result(60), job.refresh()["spec"]["workload"]["launcher"])
    """
    home.environ["PYTHONPATH"] = os.pathsep.join([home.environ["PYTHONPATH"], *sys.path[1:]])
    assert Programs(home).run(text) == "20 direct\n"


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
