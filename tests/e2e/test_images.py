"""Jobs in container images, on both engines as they are: what goes in, comes out, and ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import ENGINES, Docker, Engine, Podman, Registry, busybox_tar
from tests.support.local_home import LocalHome, slay

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Podman | Docker]:
    folder = Path(tempfile.mkdtemp(prefix="gpl-engine-"))
    engine = ENGINES[request.param](folder)
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    registry = Registry(Path(tempfile.mkdtemp(prefix="gpl-registry-")))
    try:
        yield registry
    finally:
        registry.close()


class Terminal(LocalHome):
    """A terminal whose worker has that engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(**engine.environ)
        self.engine = engine

    def gpulayer(self, *words: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
        done: subprocess.CompletedProcess[bytes] = self.typed(
            sys.executable, "-m", "gpulayer", *words, **how
        )
        return done

    def inside(self, *command: str, image: str = "", options: tuple[str, ...] = ()) -> Any:
        """`run --image`, to its end."""
        image = image or self.engine.pinned
        return self.gpulayer("run", "--image", image, *options, "--", *command)

    def submitted(self, *command: str, options: tuple[str, ...] = ()) -> str:
        words = ["submit", "-q", "--image", self.engine.pinned, *options, "--", *command]
        done = self.gpulayer(*words)
        assert done.returncode == 0, done
        return done.stdout.decode().strip()

    def job(self, name: str = "last") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.gpulayer("status", "--json", name).stdout)["job"]
        return found

    def until_it_says(self, job: str, word: bytes) -> None:
        self.until(lambda: word in self.log(job))


@pytest.fixture(scope="module")
def shared(engine: Podman | Docker) -> Iterator[Terminal]:
    """For tests that leave its plane alone."""
    with Terminal(engine) as terminal:
        yield terminal


@pytest.fixture
def terminal(engine: Podman | Docker) -> Iterator[Terminal]:
    """For tests that kill its processes."""
    with Terminal(engine) as terminal:
        yield terminal
        assert engine.containers() == []


def test_it_is_a_command_like_any_other(shared: Terminal, engine: Engine) -> None:
    """Bytes, exit code, folder and user are those of the line; the environment is the image's."""
    shared.environ["OF_THE_TERMINAL"] = "seen"
    script = (
        r"printf '\0\377\r\nout'; printf 'err\001' >&2; echo made > made; pwd > where; id -u > who;"
        ' echo "$OF_THE_TERMINAL-$EPOCHS" > told; cat > given; exit 41'
    )
    done = shared.gpulayer(
        "run", "--image", engine.pinned, "-e", "EPOCHS=3", "--", "sh", "-c", script,
        input=b"bytes\0in",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (41, b"\0\377\r\nout", b"err\x01")
    found = {path.name: path.read_bytes() for path in shared.work.iterdir()}
    assert found["where"].decode().strip() == str(shared.work)
    assert int(found["who"]) == os.geteuid()
    assert found["told"] == b"-3\n"
    assert found["given"] == b"bytes\0in"
    assert (shared.work / "made").stat().st_uid == os.geteuid()
    job = shared.job()
    assert (job["state"], job["reason"], job["exit_code"]) == ("failed", "exited", 41)
    [step] = job["preparation"]["steps"]
    assert (step["name"], step["note"]) == ("image", "here")
    assert engine.containers() == []


@pytest.mark.parametrize("code", [125, 126, 127, 137])
def test_codes_that_engines_use_are_the_jobs_own_where_it_ended_so(
    shared: Terminal, code: int
) -> None:
    done = shared.inside("sh", "-c", f"exit {code}")
    assert (done.returncode, done.stderr) == (code, b""), done
    assert shared.job()["reason"] == "exited"


def test_what_is_not_in_the_image_is_told_apart(shared: Terminal) -> None:
    for command, code, slug in (
        ("nosuch", 127, b"error[command-not-found]"),
        ("/etc/plain", 126, b"error[not-executable]"),
    ):
        done = shared.inside(command)
        assert done.returncode == code, done
        assert slug in done.stderr
        assert b"the image" in done.stderr
        assert f"help: gpulayer run --image {shared.engine.pinned}".encode() in done.stderr
        assert shared.job()["result"]["error"]["slug"].encode() in slug


def test_a_secret_reaches_it_and_is_in_no_list_of_processes(shared: Terminal) -> None:
    """One whose name means something to the engine's own client, too."""
    shared.environ |= {"TOKEN": "hunter22-of-the-job", "DOCKER_HOST2": "hunter23-of-the-job"}
    script = 'echo "$TOKEN $DOCKER_HOST2"; touch ready; while [ ! -e go ]; do sleep 0.1; done'
    named = ("--secret", "TOKEN", "--secret", "DOCKER_HOST2")
    job = shared.submitted("sh", "-c", script, options=named)
    shared.until((shared.work / "ready").exists)
    lines = [_read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [line for line in lines if b"of-the-job" in line]
    (shared.work / "go").touch()
    assert shared.gpulayer("wait", job).returncode == 0
    assert shared.log(job) == b"[redacted:TOKEN] [redacted:DOCKER_HOST2]\n"


def test_outputs_come_home(shared: Terminal) -> None:
    done = shared.inside("sh", "-c", "echo 42 > $GPULAYER_OUTPUT_DIR/answer")
    assert done.returncode == 0, done
    assert shared.gpulayer("get", "last", "got").returncode == 0
    assert (shared.work / "got" / "answer").read_text() == "42\n"


def test_memory_and_cores_are_limited_where_the_job_names_them(shared: Terminal) -> None:
    script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max"
    done = shared.inside("sh", "-c", script, options=("--memory", "0.064G", "-c", "1"))
    assert done.returncode == 0, done
    assert abs(int(done.stdout) - 64_000_000) < 4096


def test_an_end_for_want_of_memory_is_told_as_that(shared: Terminal) -> None:
    """By the kernel's count. Who ends by that code alone has the code: see above."""
    done = shared.inside("tail", "/dev/zero", options=("--memory", "0.032G"))
    assert done.returncode == 137, done
    job = shared.job()
    assert (job["state"], job["reason"], job["exit_code"]) == ("failed", "out_of_memory", 137)
    assert "for want of memory" in job["message"]
    assert not (shared.work / "oom").exists()  # of Podman's monitor


def test_what_its_first_process_does_not_handle_ends_it(shared: Terminal, engine: Engine) -> None:
    """The kernel spares the first process of a container; a cancelled job is not spared."""
    job = shared.submitted("sh", "-c", "echo up; sleep 1000; echo never")
    shared.until_it_says(job, b"up")
    assert shared.gpulayer("cancel", job).returncode == 0
    shared.until(lambda: shared.job(job)["finished_at"])
    ended = shared.job(job)
    assert (ended["state"], ended["exit_code"]) == ("cancelled", 143)
    assert ended["finished_at"] - ended["cancel_requested_at"] < 9  # not by the KILL after 10 s
    assert engine.containers() == []


def test_what_it_handles_is_its_own_affair(shared: Terminal, engine: Engine) -> None:
    script = "trap 'echo caught; exit 9' TERM; echo up; while :; do sleep 0.1; done"
    job = shared.submitted("sh", "-c", script)
    shared.until_it_says(job, b"up")
    shared.gpulayer("cancel", job)
    shared.until(lambda: shared.job(job)["finished_at"])
    assert b"caught\n" in shared.log(job)
    assert shared.job(job)["exit_code"] == 9


def test_a_kill_leaves_nothing(shared: Terminal, engine: Engine) -> None:
    script = "trap '' TERM INT; echo up; (setsid sleep 1001 &) ; while :; do sleep 0.1; done"
    job = shared.submitted("sh", "-c", script)
    shared.until_it_says(job, b"up")
    assert shared.gpulayer("cancel", "--now", job).returncode == 0
    shared.until(lambda: shared.job(job)["finished_at"])
    assert engine.containers() == []
    assert _running("sleep", "1001") == []


def test_a_time_limit_ends_it(shared: Terminal, engine: Engine) -> None:
    done = shared.inside("sleep", "1002", options=("--timeout", "1"))
    assert done.returncode == 124, done
    assert engine.containers() == []
    assert _running("sleep", "1002") == []


# --- deaths -------------------------------------------------------------------------------------


def test_no_container_outlives_its_supervisor(terminal: Terminal, engine: Engine) -> None:
    job = terminal.submitted("sh", "-c", "echo up; sleep 1003")
    terminal.until_it_says(job, b"up")
    terminal.kill("supervisor")
    terminal.until(lambda: terminal.job(job)["finished_at"])
    ended = terminal.job(job)
    assert ended["reason"] == "supervisor_lost", ended
    assert engine.containers() == []
    assert _running("sleep", "1003") == []


def test_a_lost_agent_finds_it_again(terminal: Terminal) -> None:
    script = "echo up; while [ ! -e go ]; do sleep 0.1; done; echo end"
    job = terminal.submitted("sh", "-c", script)
    terminal.until_it_says(job, b"up")
    terminal.kill("agent")
    terminal.gpulayer("ps")
    (terminal.work / "go").touch()
    assert terminal.gpulayer("wait", job).returncode == 0
    assert terminal.log(job) == b"up\nend\n"


def test_a_client_of_the_engine_that_is_killed_takes_its_container_along(
    terminal: Terminal, engine: Engine
) -> None:
    job = terminal.submitted("sh", "-c", "echo up; sleep 1004")
    terminal.until_it_says(job, b"up")
    [client] = [pid for pid in _running(engine.kind, "run") if _carries(pid, job)]
    slay(client)
    terminal.until(lambda: terminal.job(job)["finished_at"])
    ended = terminal.job(job)
    assert (ended["state"], ended["exit_code"]) == ("failed", 125), ended
    assert ended["result"]["error"]["slug"] == "container-failed"
    assert engine.containers() == []
    assert _running("sleep", "1004") == []


# --- pulls --------------------------------------------------------------------------------------


def test_a_tag_is_pinned_when_submitted_and_pulled_once(
    terminal: Terminal, engine: Podman | Docker, registry: Registry
) -> None:
    engine.trust(registry.address)
    name = f"pulled-{engine.kind}"
    tag = registry.pushed(engine, name, busybox_tar(whose=b"its own"))
    before = registry.fetched(name)
    words = ["submit", "-q", "-c", "0.1", "--image", tag, "--", "cat", "/whose"]
    jobs = [terminal.gpulayer(*words).stdout.decode().strip() for _ in range(2)]
    assert terminal.gpulayer("wait", *jobs).returncode == 0
    assert [terminal.log(job) for job in jobs] == [b"its own"] * 2
    told = [terminal.job(job) for job in jobs]
    assert {job["spec"]["image"].partition("@sha256:")[0] for job in told} == {tag}
    notes = sorted(job["preparation"]["steps"][0]["note"] for job in told)
    assert notes == ["here", "pulled"]
    assert registry.fetched(name) - before == 2  # its one layer and its configuration
    engine("rmi", "--force", told[0]["spec"]["image"].replace(":1@", "@"))


def test_what_cannot_be_pulled_says_why_and_leaves_nothing_behind(
    terminal: Terminal, engine: Podman | Docker, registry: Registry
) -> None:
    engine.trust(registry.address)
    name = f"spoilt-{engine.kind}"
    tag = registry.pushed(engine, name, busybox_tar(whose=b"other"))
    absent = f"{registry.address}/{name}@sha256:{'0' * 64}"
    done = terminal.inside("true", image=absent)
    assert done.returncode == 126, done
    assert b"error[image-failed]" in done.stderr
    assert f"is not at {registry.address}".encode() in done.stderr
    assert b"help: gpulayer help images" in done.stderr
    job = terminal.job()
    assert (job["state"], job["reason"]) == ("failed", "preparation")
    assert "phase image" in job["result"]["error"]["where"]
    registry.spoil(name)
    done = terminal.inside("true", image=tag)
    assert done.returncode == 126, done
    assert b"other bytes than its digest names" in done.stderr, done
    silent = f"127.0.0.1:9/{name}@sha256:{'0' * 64}"
    engine.trust("127.0.0.1:9")
    done = terminal.inside("true", image=silent)
    assert b"cannot be reached" in done.stderr, done


def test_an_image_for_another_kind_of_machine_is_told(
    terminal: Terminal, engine: Podman | Docker, registry: Registry
) -> None:
    maker = Podman(Path(tempfile.mkdtemp(prefix="gpl-engine-")))  # Docker makes its own kind alone
    try:
        maker.trust(registry.address)
        tag = registry.pushed(maker, f"strange-{engine.kind}", busybox_tar(), "riscv64")
    finally:
        maker.close()
    engine.trust(registry.address)
    done = terminal.inside("true", image=tag)
    assert done.returncode == 126, done
    assert b"made for riscv64, and this machine is" in done.stderr, done
    assert "phase image" in terminal.job()["result"]["error"]["where"]


def test_a_disk_that_fills_up_is_told_and_the_next_attempt_begins_anew(
    engine: Podman | Docker, registry: Registry
) -> None:
    name = f"large-{engine.kind}"
    engine.trust(registry.address)
    tag = registry.pushed(engine, name, busybox_tar(large=os.urandom(20 << 20)))
    folder = Path(tempfile.mkdtemp(prefix="gpl-engine-"))
    mount = ["mount", "-t", "tmpfs", "-o"]
    subprocess.run([*mount, "size=16m", "none", folder], check=True)
    small = type(engine)(folder)
    try:
        small.trust(registry.address)
        with Terminal(small) as terminal:
            done = terminal.inside("true", image=tag)
            assert done.returncode == 125, done
            assert b"error[disk-full]" in done.stderr, done
            assert b"has no room on its disk" in done.stderr
            job = terminal.job()
            assert (job["state"], job["reason"]) == ("failed", "disk_full")
            assert "phase image" in job["result"]["error"]["where"]
            subprocess.run([*mount, "remount,size=400m", "none", folder], check=True)
            done = terminal.inside("wc", "-c", "/large", image=tag)
            assert (done.stdout, done.returncode) == (b"20971520 /large\n", 0), done
    finally:
        small.close()
        subprocess.run(["umount", "-l", folder], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _running(*words: str) -> list[int]:
    """Processes whose line begins so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        line = _read(path).split(b"\0")
        if [os.path.basename(word) for word in line[: len(words)]] == [w.encode() for w in words]:
            found.append(int(path.parent.name))
    return found


def _carries(pid: int, job: str) -> bool:
    return f"GPULAYER_JOB_ID={job}".encode() in _read(Path(f"/proc/{pid}/environ")).split(b"\0")
