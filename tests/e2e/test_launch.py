"""Distributed jobs on one node of this machine, started by a launcher that acts as torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.runtime import segments
from tests.support.local_home import SECONDS, LocalHome
from tests.support.programs import Programs
from tests.support.torch_stub import home_with_launcher

pytestmark = pytest.mark.e2e

LAUNCH = [sys.executable, "-m", "gpulayer", "launch"]
TWO_NODES = ["--nodes", "2", "--cpus", "0.5"]
"""They fit on a machine of one core."""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with home_with_launcher() as home:
        yield home


def script(home: LocalHome, text: str, name: str = "train.py") -> str:
    Programs(home).write(text, name)
    return name


def launch(
    home: LocalHome, *words: str, procs: int = 2, **environ: str
) -> subprocess.CompletedProcess[str]:
    words = ("--procs-per-node", str(procs), *words)
    done: subprocess.CompletedProcess[str]
    done = home.typed(*LAUNCH, *words, env={**home.environ, **environ}, text=True)
    return done


def begin(home: LocalHome, *words: str, procs: int = 2) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LAUNCH, "--procs-per-node", str(procs), *words],
        cwd=home.work,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def newest(home: LocalHome) -> dict[str, object]:
    found: dict[str, object] = home.wire().call("GET", "/v1/jobs/last")
    return found


def pids(home: LocalHome, procs: int) -> list[int]:
    """Of ranks that wrote theirs down."""
    files = [home.work / f"pid.{rank}" for rank in range(procs)]
    home.until(lambda: all(file.exists() and file.read_text() for file in files))
    found = [int(file.read_text()) for file in files]
    for file in files:
        file.unlink()
    return found


STAY = """
    import os, signal
    with open("pid." + os.environ["RANK"] + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.replace(file.name, file.name[:-5])
    signal.pause()
"""


def test_each_process_has_its_rank_and_the_words_behind_the_script(home: LocalHome) -> None:
    name = script(home, "import os, sys; print(os.environ['RANK'], os.environ['LOCAL_RANK'],"
                  "os.environ['WORLD_SIZE'], os.environ['MASTER_ADDR'], *sys.argv)")  # fmt: skip
    done = launch(home, name, "--name", "x", "--", "-v", procs=3)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{rank} {rank} 3 127.0.0.1 train.py --name x -- -v" for rank in range(3)
    ]
    assert done.stderr == ""


def test_a_script_elsewhere_is_found_again_by_a_retry(home: LocalHome) -> None:
    folder = home.work / "inner"
    folder.mkdir()
    script(home, "import os; print(os.path.basename(os.getcwd()), os.environ['RANK'])", "up.py")
    environ = {**home.environ, "VIRTUAL_ENV": str(home.work / ".venv")}
    environ["PATH"] = f"{home.work / '.venv' / 'bin'}{os.pathsep}{environ['PATH']}"
    for words in (["launch", "../up.py"], ["retry", "last", "-q"]):
        made = [sys.executable, "-m", "gpulayer", *words]
        subprocess.run(made, cwd=folder, env=environ, check=True, timeout=SECONDS)
    again = home.wire().call("GET", "/v1/jobs/last?wait=60&until=finished", park=60)
    assert (again["state"], again["retry_of"] is not None) == ("succeeded", True)
    assert home.log(str(again["id"])) == b"inner 0\n"


def test_variables_of_another_launcher_reach_no_rank(home: LocalHome) -> None:
    text = """
        import os
        own = {"SLURM_PROCID", "PET_NNODES", "NODE_RANK", "OMPI_COMM_WORLD_RANK"}
        print(os.environ["RANK"], sorted(own & set(os.environ)))
    """
    name = script(home, text)
    strays = {
        "RANK": "7", "SLURM_PROCID": "7", "PET_NNODES": "9", "NODE_RANK": "7",
        "OMPI_COMM_WORLD_RANK": "7",
    }  # fmt: skip
    done = launch(home, name, **strays)
    assert sorted(done.stdout.splitlines()) == ["0 []", "1 []"]


def test_lines_of_ranks_are_whole_and_kept_by_rank(home: LocalHome) -> None:
    text = """
        import os, sys
        rank = os.environ["RANK"]
        for n in range(500):
            sys.stdout.write(rank); sys.stdout.write(" line "); sys.stdout.write(str(n) + chr(10))
        sys.stderr.write("err " + rank)
    """
    done = launch(home, script(home, text))
    lines = done.stdout.splitlines()
    for rank in "01":
        assert [line for line in lines if line[0] == rank] == [
            f"{rank} line {n}" for n in range(500)
        ]
    assert len(lines) == 1000
    job = str(newest(home)["id"])
    raw = home.wire().request("GET", f"/v1/jobs/{job}/logs").data
    for rank in (0, 1):
        records = [r for r in segments.decode(raw) if r.rank == rank]
        said = b"".join(r.data for r in records if r.stream == segments.STDOUT)
        assert said == b"".join(b"%d line %d\n" % (rank, n) for n in range(500))
        assert b"".join(r.data for r in records if r.stream == segments.STDERR) == b"err %d" % rank
    words = [sys.executable, "-m", "gpulayer", "logs", job, "--rank", "1", "--json"]
    shown = subprocess.run(
        words, cwd=home.work, env=home.environ, capture_output=True, text=True, timeout=SECONDS
    ).stdout
    lines_of_one = [json.loads(line) for line in shown.splitlines()]
    assert {line["rank"] for line in lines_of_one} == {1}
    assert len(lines_of_one) == 501


def test_a_terminal_shows_whose_line_it_is(home: LocalHome) -> None:
    name = script(home, "import os; print('hello from', os.environ['RANK'])")
    line = " ".join([*LAUNCH, "--procs-per-node", "2", name])
    done = subprocess.run(
        ["script", "-qec", line, "/dev/null"],
        cwd=home.work, env=home.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=SECONDS,
    )  # fmt: skip
    assert {"[r0] hello from 0", "[r1] hello from 1"} <= set(done.stdout.splitlines())


@pytest.mark.parametrize("how", ["exit", "signal"])
def test_the_first_failure_is_the_jobs_and_ends_the_others(home: LocalHome, how: str) -> None:
    text = f"""
        import os, signal, sys
        if os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL) if {how == "signal"} else sys.exit(7)
        signal.pause()
    """
    done = launch(home, script(home, text), procs=3)
    assert done.returncode == (-signal.SIGKILL if how == "signal" else 7)
    job = newest(home)
    assert job["state"] == "failed"
    assert job["exit_code"] == (137 if how == "signal" else 7)
    ended = "ended by SIGKILL" if how == "signal" else "exit code 7"
    assert job["message"] == f"rank 1: {ended}"
    assert job["result"]["error"]["rank"] == 1  # type: ignore[index]
    assert "Root Cause" not in done.stderr


def test_a_rank_that_ignores_the_end_is_killed(home: LocalHome) -> None:
    """torchrun itself would wait for half a minute."""
    text = """
        import os, signal, sys
        if os.environ["RANK"] == "0":
            with open("ready", "rb") as file:
                file.read()
            sys.exit(3)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("ready", "wb").close()
        while True:
            signal.pause()
    """
    os.mkfifo(home.work / "ready")
    done = launch(home, script(home, text))
    assert done.returncode == 3
    assert newest(home)["message"] == "rank 0: exit code 3"


def test_ctrl_c_ends_all_ranks(home: LocalHome) -> None:
    with begin(home, script(home, STAY)) as running:
        ranks = pids(home, 2)
        running.send_signal(signal.SIGINT)
        assert running.wait(SECONDS) in (130, -signal.SIGINT)
    assert newest(home)["state"] == "cancelled"
    assert not any(_lives(pid) for pid in ranks)


@pytest.mark.parametrize("victim", ["rank", "shim", "launcher", "leader", "supervisor"])
def test_nothing_is_left_whoever_is_killed(home: LocalHome, victim: str) -> None:
    with begin(home, script(home, STAY)) as running:
        ranks = pids(home, 2)
        shim = parent(ranks[0])
        launcher = parent(shim)
        chosen = {"rank": ranks[1], "shim": parent(ranks[1]), "launcher": launcher,
                  "leader": parent(launcher), "supervisor": home.pid("supervisor")}  # fmt: skip
        os.kill(chosen[victim], signal.SIGKILL)
        code = running.wait(SECONDS)
    assert code == (125 if victim == "supervisor" else -signal.SIGKILL)
    home.until(lambda: not any(_lives(pid) for pid in [*ranks, shim, launcher]))
    home.until(lambda: newest(home)["state"] == "failed")
    job = newest(home)
    if victim in ("rank", "shim"):
        assert job["message"] == "rank 1: ended by SIGKILL"


def test_a_busy_port_that_was_asked_for_is_told(home: LocalHome) -> None:
    import socket

    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        work = {"kind": "distributed", "entrypoint": script(home, "print(1)"),
                "rendezvous": {"port": port}}  # fmt: skip
        (home.work / "job.json").write_text(json.dumps({"workload": work}))
        words = [sys.executable, "-m", "gpulayer", "submit", "-q", "-f", "job.json"]
        made = subprocess.run(
            words, cwd=home.work, env=home.environ, capture_output=True, text=True
        )
        job = made.stdout.strip()
        ended = home.wire().call("GET", f"/v1/jobs/{job}?wait=60", park=60)
    assert (ended["state"], ended["reason"]) == ("failed", "port_taken")
    assert ended["message"] == f"port {port} is taken by another process"
    assert ended["result"]["error"]["slug"] == "port-taken"


def test_several_nodes_share_this_machine_and_meet(home: LocalHome) -> None:
    text = """
        import os, sys
        e = os.environ
        print(e["RANK"], e["GROUP_RANK"], e["LOCAL_RANK"], e["WORLD_SIZE"], e["MASTER_ADDR"])
        sys.stderr.write("end of " + e["RANK"])
    """
    done = launch(home, *TWO_NODES, script(home, text))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"{r} {r // 2} {r % 2} 4 127.0.0.1" for r in range(4)
    ]
    assert sorted(done.stderr.replace("end of ", "")) == list("0123")
    told = newest(home)
    assert (told["state"], told["ranks"]) == ("succeeded", 4)
    assert str(told["decision_summary"]) == "" or "2 nodes" in str(told["decision_summary"])


def test_a_node_that_fails_ends_the_others_and_is_the_error(home: LocalHome) -> None:
    text = """
        import os, signal, sys
        if os.environ["RANK"] == "3":
            sys.exit(9)
        signal.pause()
    """
    done = launch(home, *TWO_NODES, script(home, text))
    assert done.returncode == 9
    job = newest(home)
    assert (job["state"], job["message"]) == ("failed", "rank 3: exit code 9")
    story = home.wire().call("GET", f"/v1/jobs/{job['id']}/events")["events"]
    assert [e["message"] for e in story if e["kind"] == "stopping"] == [
        "rank 3: exit code 9; the other nodes are asked to end"
    ]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_nodes(home: LocalHome, signum: int) -> None:
    words = [*LAUNCH, *TWO_NODES, script(home, STAY)]
    with subprocess.Popen(
        words,
        cwd=home.work,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        ranks = pids(home, 2)
        running.send_signal(signum)
        assert running.wait(SECONDS) in (128 + signum, -signum)
    assert newest(home)["state"] == "cancelled"
    assert not any(_lives(pid) for pid in ranks)


@pytest.mark.parametrize("victim", ["rank", "leader", "supervisor", "agent", "plane"])
def test_nothing_of_a_gang_is_left_whoever_is_killed(home: LocalHome, victim: str) -> None:
    words = [*LAUNCH, "-d", *TWO_NODES, script(home, STAY)]
    made = subprocess.run(words, cwd=home.work, env=home.environ, capture_output=True, text=True)
    ranks = pids(home, 2)
    leader = parent(parent(parent(ranks[1])))
    if victim in ("rank", "leader"):
        os.kill(ranks[1] if victim == "rank" else leader, signal.SIGKILL)
    else:
        home.kill(victim)
    job = made.stdout.strip()
    if victim in ("agent", "plane"):  # they own nothing: it runs on
        home.until(lambda: newest(home)["state"] == "running" and len(home.processes()) >= 3)
        assert all(_lives(pid) for pid in ranks)
        home.wire().call("POST", f"/v1/jobs/{job}/cancel", {"mode": "kill"})
    home.until(lambda: not any(_lives(pid) for pid in ranks))
    home.until(lambda: newest(home)["finished_at"] is not None)
    expected = "cancelled" if victim in ("agent", "plane") else "failed"
    assert newest(home)["state"] == expected
    if victim == "rank":
        assert newest(home)["message"] == "rank 1: ended by SIGKILL"


def test_more_nodes_than_this_machine_has_cores_for_are_refused_with_the_numbers(
    home: LocalHome,
) -> None:
    done = launch(home, "--nodes", "1000", script(home, "print(1)"), procs=1)
    assert done.returncode == 125
    assert "no-matching-worker" in done.stderr
    assert "needs room for 1000 nodes at once" in str(newest(home)["message"])


def test_a_function_runs_on_each_rank_and_rank_0s_value_is_the_result(home: LocalHome) -> None:
    text = """
        import os
        import gpulayer as gl

        def train(scale, bias=0):
            print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
            return scale * (int(os.environ["RANK"]) + 1) + bias

        def fails(_):
            if os.environ["RANK"] == "1":
                raise ValueError("no data on rank 1")
            import signal
            signal.pause()

        if __name__ == "__main__":
            job = gl.launch(train, procs_per_node=2, args=[10])
            print("value", job.result(60))
            print(*job.logs(rank=1))
            named = gl.launch(train, procs_per_node=2, args={"scale": 1, "bias": 5})
            print("named", named.result(60))
            try:
                gl.launch(fails, procs_per_node=2, args=[0]).result(60)
            except gl.JobFailedError as error:
                print("failed", repr(error.__cause__))
    """
    python = str(home.work / ".venv" / "bin" / "python")
    programs = Programs(home, python)
    home.environ["PYTHONPATH"] = os.pathsep.join([home.environ["PYTHONPATH"], *sys.path[1:]])
    said = programs.run(text).splitlines()
    assert said == [
        "value 10", "rank 1 of 2", "named 6", "failed ValueError('no data on rank 1')",
    ]  # fmt: skip


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_rank_0_had_kept_is_there_for_every_node_of_the_next_attempt(home: LocalHome) -> None:
    begins = """
        import os, pathlib
        kept = pathlib.Path(os.environ["GPULAYER_CHECKPOINT_DIR"])
        if os.environ["RANK"] == "0" and os.environ["GPULAYER_ATTEMPT"] == "1":
            (kept / "draft").write_text("step 7")
            (kept / "draft").rename(kept / "state")
        if os.environ["GPULAYER_ATTEMPT"] == "2":
            print("rank", os.environ["RANK"], "found", (kept / "state").read_text())
            raise SystemExit
    """
    text = textwrap.dedent(begins) + textwrap.dedent(STAY)
    keep = ("--checkpoint", "ck:0.2s", "--retries", "1", "--retry-on", "failed")
    words = (*TWO_NODES, *keep, "--detach", "-q", script(home, text, "kept.py"))
    job = launch(home, *words, procs=1).stdout.strip()

    def is_kept() -> bool:
        told = json.loads(home.gpulayer("events", "--json", job).stdout)["events"]
        return any(event["kind"] == "checkpoint" for event in told)

    ranks = pids(home, 2)
    home.until(is_kept)
    os.kill(ranks[1], signal.SIGKILL)
    assert home.gpulayer("wait", job).returncode == 0
    logs = home.gpulayer("logs", job).stdout
    assert "rank 0 found step 7" in logs
    assert "rank 1 found step 7" in logs
