"""Jobs that do not behave: they get their own exit, everybody else goes on, nothing is left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e

ROOM_KIB = 24 << 10
"""More than this is not flat."""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        home.run("true", check=0)
        yield home
        assert home.stop()
        assert home.strays() == []


@pytest.fixture
def well(home: LocalHome) -> Iterator[LocalHome]:
    """Afterwards one of each process is there and the next job is right."""
    yield home
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    home.until(lambda: home.processes() == ["agent", "plane", "supervisor"])


def memory_kib(home: LocalHome) -> dict[str, int]:
    found = {}
    for kind in ("agent", "plane", "supervisor"):
        lines = Path(f"/proc/{home.pid(kind)}/status").read_text().splitlines()
        found[kind] = int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
    return found


@pytest.mark.parametrize(
    "victims", [("supervisor",), ("agent",), ("plane",), ("plane", "agent")], ids="-".join
)
def test_a_job_that_kills_ours(well: LocalHome, victims: tuple[str, ...]) -> None:
    """Without its supervisor it is ended; whoever else dies, it ends by itself."""
    is_ended = "supervisor" in victims
    pids = " ".join(str(well.pid(kind)) for kind in victims)
    end = "exec sleep 600" if is_ended else "sleep 0.5; exit 5"
    done = well.run("sh", "-c", f"kill -9 {pids}; {end}")
    assert done.returncode == (125 if is_ended else 5)


@pytest.mark.parametrize(
    ("script", "code", "out"),
    [
        ("exec >&-; sleep 0.2; exit 5", 5, b""),
        ("exec 0<&- 1>&- 2>&-; exit 6", 6, b""),
        ("sleep 600 & echo hi", 0, b"hi\n"),
        ("setsid sleep 600 & echo hi; exit 4", 4, b"hi\n"),
        ("trap '' TERM INT HUP; sleep 600 & echo hi", 0, b"hi\n"),
        ("printf '\\377\\376a\\r50%%\\r\\0'", 0, b"\xff\xfea\r50%\r\0"),
        ("kill -9 $$", 137, b""),
        ("echo '\033]0;title\007'; exit 3", 3, b"\033]0;title\007\n"),
    ],
)
def test_a_job_that_is_odd(well: LocalHome, script: str, code: int, out: bytes) -> None:
    done = well.run("sh", "-c", script)
    assert (done.returncode % 256, done.stdout) in ((code, out), (256 - 9, out))


@pytest.mark.parametrize(
    ("what", "count"),
    [("b'x' * (1 << 20)", 300), ("b'\\n' * (1 << 20)", 10)],
    ids=["line", "lines"],
)
def test_a_flood_leaves_everybody_as_small_as_before(
    well: LocalHome, what: str, count: int
) -> None:
    before = memory_kib(well)
    code = f"import sys\nb = {what}\nfor _ in range({count}): sys.stdout.buffer.write(b)"
    flood = well.popen(sys.executable, "-c", code, stdout=subprocess.PIPE)
    assert flood.stdout is not None
    size = 0
    while part := flood.stdout.read(1 << 20):
        size += len(part)
    assert (flood.wait(SECONDS), size) == (0, count << 20)
    after = memory_kib(well)
    assert all(after[kind] - before[kind] < ROOM_KIB for kind in before), (before, after)


BOMB = """
import os, time
for _ in range(200):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
print("done")
"""


def test_a_job_that_leaves_hundreds_behind(well: LocalHome) -> None:
    done = well.run(sys.executable, "-c", BOMB)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    well.until(lambda: len(well.strays()) == 3)


OUTPUTS = r"""
import os, socket
os.chdir(os.environ["GPULAYER_OUTPUT_DIR"])
open("good", "w").write("g")
open("..x", "w").close()
os.symlink("/etc/passwd", "link")
os.symlink("/etc", "folder-link")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("a\x1b[31m\n\u202eb", "w").close()
open(b"caf\xe9", "w").close()
with open("sparse", "w") as file:
    file.truncate(1 << 40)
"""


def test_an_output_folder_of_strange_things(well: LocalHome) -> None:
    well.run(sys.executable, "-c", OUTPUTS, check=0)
    job = well.jobs()[0]["id"]
    well.until(lambda: well.wire().call("GET", f"/v1/jobs/{job}")["finished_at"])
    found = well.wire().call("GET", f"/v1/jobs/{job}")
    assert [output["path"] for output in found["outputs"]] == ["..x", "good"]
    assert found["message"].startswith("not kept as output: ")
    for verb in ("status", "events", "why", "logs"):
        shown = subprocess.run(
            [sys.executable, "-m", "gpulayer", verb, job],
            env=well.environ,
            cwd=well.work,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert b"\x1b" not in shown.stdout + shown.stderr
        assert "\u202e".encode() not in shown.stdout + shown.stderr


NAME = "\x1b]0;pwn\x07\x1b[31mred\nnew\u202ebidi\u009b31m"


def test_names_of_control_characters_are_shown_as_what_they_are(well: LocalHome) -> None:
    folder = well.work / NAME
    folder.mkdir()
    for words in (["run", "--", NAME], ["submit", "--", "echo", NAME], ["submit", "--name", NAME]):
        said = [shown(well, folder, *words)]
        said += [shown(well, folder, verb, "last") for verb in ("status", "events", "why", "wait")]
        said += [shown(well, folder, "ps", "-a"), shown(well, folder, "status", NAME)]
        for text in said:
            assert not set(text) & set("\x1b\x07\u202e\u009b"), text


def shown(home: LocalHome, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gpulayer", *words],
        env=home.environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return (done.stdout + done.stderr).decode()


def test_the_longest_command_and_environment(well: LocalHome) -> None:
    words = ["a" * 20] * 10_000
    assert well.run("true", *words).returncode == 0
    big = well.run("sh", "-c", "echo ${#BIG}", env=well.environ | {"BIG": "v" * 120_000})
    assert big.stdout == b"120000\n"
    many = {f"BIG{n}": "v" * 120_000 for n in range(10)}
    assert well.run("true", env=well.environ | many).returncode == 0


def test_descriptors_and_files_of_ours_are_not_given_to_a_job(well: LocalHome) -> None:
    code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    done = well.run(sys.executable, "-c", code)
    assert done.stdout == b"[0, 1, 2, 3]\n"
