from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpulayer.gpu.machine import Machine, Programs, run_program
from tests.support.supervisor import eventually


def test_a_program_that_ends_gives_its_code_and_both_streams() -> None:
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    ended = run_program([sys.executable, "-I", "-S", "-c", script], 20)
    assert (ended.code, ended.out, ended.err, ended.problem) == (3, "out\n", "err\n", "")
    assert not ended.ok


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    script = 'sleep 300 & echo $$ $! > "$1"; wait'
    ended = run_program(["/bin/sh", "-c", script, "sh", str(note)], 2)
    assert (ended.code, ended.problem) == (None, "timeout")
    pids = note.read_text().split()
    assert len(pids) == 2
    eventually(lambda: not [pid for pid in pids if _runs(pid)])


def test_a_program_that_cannot_be_killed_is_not_started_again() -> None:
    left: list[subprocess.Popen[bytes]] = []

    def cannot(child: subprocess.Popen[bytes]) -> bool:
        left.append(child)
        return False

    programs = Programs(end=cannot)
    argv = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
    try:
        assert programs(argv, 0.1).problem == "timeout"
        assert programs(argv, 60).problem == "timeout"
        assert len(left) == 1
    finally:
        for child in left:
            child.kill()
            child.communicate()
    assert programs(["/bin/true"], 20).ok


def test_a_program_that_is_not_there_is_missing() -> None:
    ended = run_program(["no-such-program-anywhere"], 1)
    assert (ended.code, ended.problem) == (None, "missing")


def test_a_program_is_found_on_the_path_before_its_usual_place(tmp_path: Path) -> None:
    usual = tmp_path / "opt" / "tool"
    usual.parent.mkdir()
    usual.write_text("")
    machine = Machine(environ={"PATH": str(tmp_path)}, root=tmp_path)
    assert machine.which("tool", "/opt/tool") == "/opt/tool"
    assert machine.which("tool") is None
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o755)
    assert machine.which("tool", "/opt/tool") == str(tmp_path / "tool")


def _runs(pid: str) -> bool:
    """Whether it still runs; one that ended and is not yet reaped does not."""
    try:
        state = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
