"""`run` and the SDK on a plane elsewhere, over TLS: bytes, keys, exits, and a link that is cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bridge import Bridge
from tests.support.local_home import RUN, SECONDS, LocalHome

pytestmark = pytest.mark.e2e


class Far:
    """A person at one machine, and a plane at another. Nothing of a plane runs where they sit."""

    def __init__(self, there: LocalHome, here: LocalHome, link: Bridge) -> None:
        self.there, self.here, self.link = there, here, link
        self.environ = here.environ | {"GPULAYER_URL": link.url, "GPULAYER_TOKEN": "gplc_x"}

    def gpulayer(self, *words: str, **how: object) -> subprocess.CompletedProcess[bytes]:
        return self._run([sys.executable, "-m", "gpulayer", *words], **how)

    def run(self, *command: str, **how: object) -> subprocess.CompletedProcess[bytes]:
        return self._run([*RUN, *command], **how)

    def python(self, text: str) -> subprocess.CompletedProcess[bytes]:
        (self.here.work / "script.py").write_text(text)
        return self._run([sys.executable, "script.py"])

    def popen(self, *command: str, **how: object) -> subprocess.Popen[bytes]:
        kept = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*RUN, *command],
            cwd=self.here.work,
            env=self.environ,
            **{**kept, **how},  # type: ignore[call-overload]
        )

    def job(self) -> dict[str, object]:
        """The newest one."""
        return self.there.jobs()[0]

    def _run(self, words: list[str], **how: object) -> subprocess.CompletedProcess[bytes]:
        if "input" not in how:
            how["stdin"] = subprocess.DEVNULL
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            words,
            cwd=self.here.work,
            env=self.environ,
            capture_output=True,
            timeout=SECONDS,
            **how,
        )


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    with LocalHome() as there, LocalHome() as here:
        there.run("true", check=0)
        with Bridge(there.places.plane_socket) as link:
            yield Far(there, here, link)
        assert here.processes() == []


def test_streams_are_byte_exact_and_apart(far: Far) -> None:
    code = "import os; os.write(1, bytes(range(256)) * 512); os.write(2, b'\\xff err\\n')"
    done = far.run("python", "-c", code)
    assert done.returncode == 0
    assert done.stdout == bytes(range(256)) * 512
    assert done.stderr == b"\xff err\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("exit 125", 125), ("kill -9 $$", -9), ("kill -TERM $$", -15)],
)
def test_it_ends_as_the_job_did(far: Far, script: str, code: int) -> None:
    assert far.run("sh", "-c", script).returncode == code


def test_what_is_not_there_is_127(far: Far) -> None:
    done = far.run("no-such-command")
    assert done.returncode == 127
    assert b"error[command-not-found]" in done.stderr


def test_a_time_limit_is_124(far: Far) -> None:
    done = far.gpulayer("run", "--timeout", "0.3", "--", "sleep", "60")
    assert done.returncode == 124


def test_the_job_runs_in_a_folder_of_its_own(far: Far) -> None:
    folder = far.run("pwd").stdout.decode().strip()
    assert folder != str(far.here.work)
    assert str(far.there.folder) in folder


def test_nothing_of_this_terminals_environment_is_there(far: Far) -> None:
    far.environ["SECRET_OF_MINE"] = "x1"
    try:
        done = far.run("sh", "-c", "echo ${SECRET_OF_MINE-none} ${GPULAYER_TOKEN-none}")
    finally:
        del far.environ["SECRET_OF_MINE"]
    assert done.stdout == b"none none\n"


def test_the_first_ctrl_c_is_a_sigint_for_the_job(far: Far) -> None:
    script = "trap 'echo caught; exit 7' INT; echo on; while :; do sleep 0.05; done"
    client = far.popen("sh", "-c", script)
    assert client.stdout is not None
    assert client.stdout.readline() == b"on\n"
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=SECONDS)
    assert out == b"caught\n"
    assert client.returncode == 7
    assert b"interrupting" in err


def test_the_second_ctrl_c_kills_and_waits_for_the_proof(far: Far) -> None:
    client = far.popen("sh", "-c", "trap '' INT TERM; echo on; while :; do sleep 0.05; done")
    assert client.stdout is not None
    assert client.stderr is not None
    assert client.stdout.readline() == b"on\n"
    client.send_signal(signal.SIGINT)
    assert b"interrupting" in client.stderr.readline()
    client.send_signal(signal.SIGINT)
    assert b"killing" in client.stderr.readline()
    client.communicate(timeout=SECONDS)
    assert client.returncode == -signal.SIGKILL
    assert far.job()["state"] == "cancelled"


def test_sigterm_cancels(far: Far) -> None:
    client = far.popen("sh", "-c", "echo on; exec sleep 600")
    assert client.stdout is not None
    client.stdout.readline()
    client.terminate()
    client.communicate(timeout=SECONDS)
    assert client.returncode == -signal.SIGTERM
    assert far.job()["state"] == "cancelled"


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGKILL])
def test_a_client_that_goes_leaves_the_job(
    far: Far, tmp_path: Path, signum: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    client = far.popen("sh", "-c", f"echo on; while [ ! -e {gate} ]; do sleep 0.05; done; echo end")
    assert client.stdout is not None
    client.stdout.readline()
    client.send_signal(signum)
    client.communicate(timeout=SECONDS)
    assert client.returncode == -signum
    far.there.until(lambda: far.job()["state"] == "running")  # what it says may come before that
    gate.touch()
    job = str(far.job()["id"])
    assert far.gpulayer("wait", job).returncode == 0
    assert far.gpulayer("logs", job).stdout == b"on\nend\n"


def test_a_reader_that_leaves_ends_the_job(far: Far) -> None:
    client = far.popen("yes")
    assert client.stdout is not None
    client.stdout.readline()
    client.stdout.close()
    client.wait(SECONDS)
    assert client.returncode == -signal.SIGPIPE
    far.there.until(lambda: far.job()["state"] == "cancelled")


def test_a_link_that_is_cut_loses_no_byte(far: Far) -> None:
    """Cut in the middle of the output, mended once the job has gone on without us."""
    count = 20_000
    gates = [far.there.folder / f"cut-{n}" for n in range(2)]
    code = (
        "import os, time\n"
        f"gates, count = {[str(gate) for gate in gates]!r}, {count}\n"
        "for n in range(count):\n"
        "    print(n, flush=n % 100 == 0)\n"
        "    if n == count // 2:\n"
        "        print('half', flush=True)\n"
        "        while not os.path.exists(gates[0]): time.sleep(0.01)\n"
        "open(gates[1], 'w').close()\n"
    )
    client = far.popen("python", "-c", code)
    assert client.stdout is not None
    heard = b""
    while not heard.endswith(b"half\n"):
        heard += client.stdout.readline()
    far.link.cut()
    gates[0].touch()
    far.there.until(gates[1].exists)
    far.link.mend()
    rest, _ = client.communicate(timeout=SECONDS)
    lines = (heard + rest).replace(b"half\n", b"")
    assert client.returncode == 0
    assert lines == b"".join(b"%d\n" % n for n in range(count))


def test_the_verbs_mean_that_plane(far: Far) -> None:
    job = (
        far.gpulayer("submit", "-q", "--name", "named", "--", "echo", "hi").stdout.decode().strip()
    )
    assert far.gpulayer("wait", "-q", job).returncode == 0
    for words in (["ps", "-a"], ["status", job], ["why", job], ["events", job], ["workers"]):
        done = far.gpulayer(*words)
        assert done.returncode == 0, done.stderr
    assert job.encode() in far.gpulayer("ps", "-a").stdout
    assert far.gpulayer("logs", job).stdout == b"hi\n"
    again = far.gpulayer("retry", "-q", job).stdout.decode().strip()
    assert far.gpulayer("wait", "-q", again).returncode == 0
    assert far.gpulayer("logs", again).stdout == b"hi\n"


def test_put_and_get_go_there(far: Far) -> None:
    (far.here.work / "data").write_bytes(b"\0" * 100_000)
    address = far.gpulayer("put", "-q", "data").stdout.decode().strip()
    assert far.gpulayer("get", address, "back").returncode == 0
    assert (far.here.work / "back").read_bytes() == b"\0" * 100_000


def test_a_pin_that_nobody_has_names_who_is_there(far: Far) -> None:
    done = far.gpulayer("run", "--on", "nobody", "--", "true")
    assert done.returncode == 125
    assert os.uname().nodename.encode() in done.stderr


def test_here_is_this_machine_whatever_is_chosen(far: Far) -> None:
    with LocalHome() as own:
        environ = own.environ | {k: far.environ[k] for k in ("GPULAYER_URL", "GPULAYER_TOKEN")}
        done = subprocess.run(
            [*RUN[:-1], "--on", "here", "--", "pwd"],
            env=environ,
            cwd=own.work,
            capture_output=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
        assert Path(done.stdout.decode().strip()) == own.work.resolve()
        assert len(own.jobs()) == 1


def test_another_certificate_is_125_and_nothing_runs(far: Far) -> None:
    before = len(far.there.jobs())
    url = far.environ["GPULAYER_URL"]
    done = subprocess.run(
        [*RUN, "true"],
        env=far.environ | {"GPULAYER_URL": url[:-4] + "0000"},
        capture_output=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 125
    assert b"error[tls-untrusted]" in done.stderr
    assert len(far.there.jobs()) == before


def test_the_sdk_submits_there(far: Far) -> None:
    done = far.python(
        "import gpulayer as gl\n"
        "job = gl.submit(['sh', '-c', 'echo from afar; exit 4'])\n"
        "print(job.wait().exit_code, list(job.logs()))\n"
        "print(gl.run(['pwd']).exit_code)\n"
        "print(gl.plan(['true'])['outcome'])\n"
    )
    assert done.stderr == b""
    assert done.stdout.startswith(b"4 ['from afar']\n")
    assert done.stdout.endswith(b"\n0\nplaced\n")


def test_a_followed_log_and_a_wait_outlive_a_cut_link(far: Far) -> None:
    gate = far.there.folder / "verbs-gate"
    script = f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two; exit 6"
    job = far.gpulayer("submit", "-q", "--", "sh", "-c", script).stdout.decode().strip()
    words = [sys.executable, "-m", "gpulayer"]
    how: dict[str, Any] = {"env": far.environ, "cwd": far.here.work, "stdout": subprocess.PIPE}
    follower = subprocess.Popen([*words, "logs", "-f", "--exit-code", job], **how)
    waiter = subprocess.Popen([*words, "wait", "-q", job], **how)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"one\n"
    far.there.until(lambda: f"/{job}?wait=".encode() in far.link.heard)
    far.link.cut()
    gate.touch()
    far.there.until(lambda: far.job()["state"] == "failed")
    far.link.mend()
    assert follower.communicate(timeout=SECONDS)[0] == b"two\n"
    waiter.communicate(timeout=SECONDS)
    assert (follower.returncode, waiter.returncode) == (6, 6)


def test_a_program_names_its_plane(far: Far) -> None:
    """By url and token, whatever the environment says; `on="here"` is this machine still."""
    url = far.environ["GPULAYER_URL"]
    with LocalHome() as own:
        (own.work / "names.py").write_text(
            "import gpulayer as gl\n"
            f"with gl.connect({url!r}, 'gplc_x'):\n"
            "    print(gl.run(['sh', '-c', 'echo $PWD']).exit_code)\n"
            "    print(gl.run(['pwd'], on='here').exit_code)\n"
        )
        done = subprocess.run(
            [sys.executable, "names.py"],
            env=own.environ,
            cwd=own.work,
            capture_output=True,
            timeout=SECONDS,
        )
        there, code, here, _ = done.stdout.decode().splitlines()
        assert str(far.there.folder) in there
        assert Path(here) == own.work.resolve()
        assert code == "0"


def test_a_waiting_program_outlives_a_cut_link(far: Far) -> None:
    gate = far.there.folder / "sdk-gate"
    (far.here.work / "waits.py").write_text(
        "import gpulayer as gl\n"
        f"job = gl.submit(['sh', '-c', 'while [ ! -e {gate} ]; do sleep 0.05; done; exit 5'])\n"
        "future = job.future()\n"
        "print('waiting', flush=True)\n"
        "print(job.wait().exit_code)\n"
    )
    program = subprocess.Popen(
        [sys.executable, "waits.py"], cwd=far.here.work, env=far.environ, stdout=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"waiting\n"
    far.link.cut()
    gate.touch()
    far.there.until(lambda: far.job()["state"] == "failed")
    far.link.mend()
    assert program.communicate(timeout=SECONDS)[0] == b"5\n"
