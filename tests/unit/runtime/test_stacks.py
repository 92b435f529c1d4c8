"""What a rank's Python does before the rank's own code, and stacks out of living processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpulayer.runtime import rank_shim, rank_start, stacks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the signal is one of Linux's")

SECONDS = 60.0
WAITS = """
import sys, threading
def inner():
    print("up", flush=True)
    sys.stdin.readline()
def beside(): threading.Event().wait()
threading.Thread(target=beside, daemon=True).start()
inner()
"""


@contextmanager
def begun(words: list[str], environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that has said its line, old enough to be asked."""
    with subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        while stacks._age(process.pid) < stacks._YOUNG_SECONDS:
            process.poll()
        yield process
        assert process.stdin is not None
        process.stdin.write("\n")


def rank(folder: Path) -> dict[str, str]:
    return rank_start.environ(str(folder), {**os.environ, "RANK": "3"})


def looked(pid: int, folder: Path) -> dict[str, Any]:
    (entry,) = stacks.look(pid, str(folder))
    return entry


def test_a_rank_tells_its_threads_and_goes_on(tmp_path: Path) -> None:
    with begun([sys.executable, "-c", WAITS], rank(tmp_path)) as process:
        for _ in range(2):
            entry = looked(process.pid, tmp_path)
            main, other = entry["threads"]
            assert [frame[2] for frame in main["frames"]] == ["<module>", "inner"]
            assert (main["is_main"], other["is_main"]) == (True, False)
            assert other["frames"][-1][2] == "wait"
            told = (entry["rank"], entry["is_rank"], entry["source"], entry["why"])
            assert told == (3, True, "faulthandler", "")
    assert process.returncode == 0


def test_who_did_not_ask_for_it_is_sent_nothing(tmp_path: Path) -> None:
    """The signal would end it."""
    environ = {**os.environ, "PATH": str(tmp_path)}  # where no py-spy is
    with begun([sys.executable, "-c", WAITS], environ) as process:
        entry = looked(process.pid, tmp_path)
        if entry["source"] is None:
            assert "py-spy" in entry["why"]
    assert process.returncode == 0


def test_what_a_rank_became_is_sent_nothing(tmp_path: Path) -> None:
    program = "import os; os.execvp('sh', ['sh', '-c', 'echo up; read line'])"
    with begun([sys.executable, "-c", program], rank(tmp_path)) as process:
        assert stacks.opened(process.pid, str(tmp_path)) is None
        assert list(stacks.look(process.pid, str(tmp_path))) == []
    assert process.returncode == 0


def test_what_has_just_begun_is_asked_later(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WAITS]
    with subprocess.Popen(
        words, env=rank(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        entry = looked(process.pid, tmp_path)
        if stacks._age(process.pid) < stacks._YOUNG_SECONDS:
            assert (entry["source"], entry["threads"]) == (None, [])
        process.communicate(b"\n", SECONDS)
    assert process.returncode == 0


def test_a_child_writes_of_itself(tmp_path: Path) -> None:
    program = """
import os, sys
if os.fork():
    os.wait()
else:
    def child():
        print("up", flush=True); sys.stdin.readline()
    child()
"""
    with begun([sys.executable, "-c", program], rank(tmp_path)) as process:
        (child,) = map(
            int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        )
        while stacks._age(child) < stacks._YOUNG_SECONDS:
            process.poll()
        entry = looked(child, tmp_path)
        assert entry["threads"][0]["frames"][-1][2] == "child"
        assert (entry["rank"], entry["is_rank"]) == (3, False)
    assert process.returncode == 0


SHOW = """
import json, os, sys
print(json.dumps([sys.path, sorted(os.environ), sorted(sys.modules), os.environ.get("PYTHONPATH")]))
"""


@pytest.mark.parametrize("path", [None, "", "/a:/b"])
def test_nothing_of_it_is_left_in_path_environment_or_modules(
    tmp_path: Path, path: str | None
) -> None:
    given = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"RANK": "0"}
    given |= {} if path is None else {"PYTHONPATH": path}
    found = []
    for environ in (given, rank_start.environ(str(tmp_path), given)):
        words = [sys.executable, "-c", SHOW]
        done = subprocess.run(words, env=environ, check=True, capture_output=True)
        found.append(json.loads(done.stdout))
    plain, led = found
    extra = set(led[2]) - set(plain[2])
    assert extra <= {"__future__", "faulthandler", "fcntl"}
    assert [led[0], led[1], led[3]] == [plain[0], plain[1], plain[3]]


def test_the_users_own_customisation_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    given = {**os.environ, "PYTHONPATH": str(tmp_path), "RANK": "0"}
    environ = rank_start.environ(str(tmp_path), given)
    done = subprocess.run([sys.executable, "-c", ""], env=environ, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("mine\n", "")


def test_the_last_error_of_a_rank_is_kept_and_shown_as_ever(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("def load():\n    raise ValueError('no data')\nload()\n")
    words = [sys.executable, str(program)]
    led = subprocess.run(words, env=rank(tmp_path), capture_output=True, text=True)
    plain = subprocess.run(words, capture_output=True, text=True)
    assert (led.stderr, led.returncode) == (plain.stderr, 1)
    error = json.loads((tmp_path / "3.raised").read_text())["error"]
    assert (error["type"], error["message"]) == ("ValueError", "no data")
    assert "in load" in error["traceback"]


def test_a_rank_failed_when_it_raised_not_when_it_had_ended(tmp_path: Path) -> None:
    """Its neighbours notice before it has ended, and may end before it."""
    assert rank_shim._failed_at(str(tmp_path / "3")) > 9
    (tmp_path / "3.raised").write_text("")
    os.utime(tmp_path / "3.raised", (9, 9))
    assert rank_shim._failed_at(str(tmp_path / "3")) == 9


def test_an_exit_is_no_error(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", "raise SystemExit(4)"], env=rank(tmp_path))
    assert not (tmp_path / "3.raised").exists()


def test_what_faulthandler_writes_is_read_with_the_main_thread_first() -> None:
    text = (
        "Thread 0x01 (most recent call first):\n"
        '  File "/a b.py", line 3 in wait\n'
        '  File "/a b.py", line ??? in run\n'
        "\n"
        "Current thread 0x02 (most recent call first):\n"
        '  File "/t.py", line 12 in step\n'
        '  File "/t.py", line 20 in <module>\n'
    )
    assert stacks.parsed(text) == [
        {"is_main": True, "frames": [["/t.py", 20, "<module>"], ["/t.py", 12, "step"]]},
        {"is_main": False, "frames": [["/a b.py", 0, "run"], ["/a b.py", 3, "wait"]]},
    ]
