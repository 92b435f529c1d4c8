"""Commands that tell a secret, and those that do everything else: in time, and nothing left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulayer.clock import SystemClock
from gpulayer.runtime.processes import marked
from gpulayer.worker.environments.building import TakenBackError
from gpulayer.worker.secrets.commands import MARK, printed
from gpulayer.worker.secrets.sources import Unusable

VALUE = "hunter2-hunter2"
SOON, LATE = 1.0, 60.0


def told(
    script: str, *, seconds: float = LATE, is_wanted: Callable[[], bool] = lambda: True
) -> str:
    """What that Python script tells; whatever it began is gone then."""
    mark = f"{os.getpid()}"
    try:
        return printed(
            [sys.executable, "-c", script],
            {"PATH": os.environ["PATH"], "IN": VALUE},
            SystemClock(),
            is_wanted,
            mark,
            seconds,
        )
    finally:
        assert marked(f"{MARK}={mark}".encode()) == []


def refused(script: str, *, seconds: float = LATE) -> str:
    with pytest.raises(Unusable) as error:
        told(script, seconds=seconds)
    assert error.value.slug == "secret-missing"
    assert VALUE not in error.value.what + error.value.why
    return error.value.what


def test_the_value_is_what_it_prints_less_one_line_break() -> None:
    assert told("import os; print(os.environ['IN'])") == VALUE
    assert told("print('two\\nlines\\n')") == "two\nlines\n"
    assert told(f"import sys; sys.stdout.write({VALUE!r})") == VALUE
    assert told("import sys; sys.stdout.buffer.write(b'\\xff' * 6)").encode(
        "utf-8", "surrogateescape"
    ) == b"\xff" * 6  # fmt: skip


def test_no_shell_sees_it_and_it_has_nothing_to_read(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"]}
    words = ["echo", f"$HOME;touch {tmp_path}/x"]
    assert printed(words, environ, SystemClock(), lambda: True, "m") == words[1]
    assert list(tmp_path.iterdir()) == []
    assert told("import sys; print(repr(sys.stdin.read()) * 3)") == "''''''"


def test_what_it_says_of_a_failure_is_thrown_away() -> None:
    script = f"import sys; print({VALUE!r}); print({VALUE!r}, file=sys.stderr); sys.exit(3)"
    assert "ended with exit code 3" in refused(script)


def test_one_that_is_not_there_is_named_so() -> None:
    with pytest.raises(Unusable) as error:
        printed(["no-such-program"], {"PATH": "/bin"}, SystemClock(), lambda: True, "m")
    assert "not on the worker's PATH" in error.value.what


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("pass", "printed nothing"),
        ("print()", "printed nothing"),
        ("print('a\\0b')", "no text"),
        ("import os; os.kill(os.getpid(), 9)", "exit code 137"),
        (f"print({VALUE!r}); raise SystemExit(1)", "exit code 1"),
    ],
)
def test_one_without_a_value_says_which_way(script: str, said: str) -> None:
    assert said in refused(script)


def test_one_without_end_is_ended() -> None:
    assert "did not end within 1 s" in refused("import time; time.sleep(600)", seconds=SOON)
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"print({VALUE!r}, flush=True); time.sleep(600)"
    )
    assert "did not end" in refused(stubborn, seconds=SOON)


def test_one_that_prints_without_end_is_ended_at_the_limit() -> None:
    assert "more than 65536 bytes" in refused("while True: print('x' * 65536)")


def test_whatever_it_leaves_behind_is_ended_and_holds_nothing_up(tmp_path: Path) -> None:
    """A process of a session of its own that holds the pipe and cleared its environment: the value
    is there as soon as the command ends, and the process is gone."""
    sleep = "import time; time.sleep(600)"
    script = (
        "import os, sys\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        f"        os.execve(sys.executable, [sys.executable, '-c', {sleep!r}], {{}})\n"
        "    os.write(write, str(pid).encode())\n"
        "    os._exit(0)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(os.read(read, 20).decode())\n"
        f"print({VALUE!r})"
    )
    assert told(script) == VALUE
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_one_that_nobody_wants_any_more_is_ended() -> None:
    asked = iter([True, True, False])
    with pytest.raises(TakenBackError):
        told("import time; time.sleep(600)", is_wanted=lambda: next(asked))
