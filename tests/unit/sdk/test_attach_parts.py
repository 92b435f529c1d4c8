"""The parts of an attached client: what Ctrl-C means, what its streams are, how bytes get out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpulayer.sdk.interrupts import INTERRUPT, KILL, LEAVE, PASS, ExitReport, Ladder
from gpulayer.sdk.streams import Outlet

DECIDE = """
import json
from gpulayer.sdk import streams
streams.fill_closed()
found = streams.decide(None)
print(json.dumps([found.kinds, found.merged, found.mode]))
"""


def test_with_plain_streams_the_second_press_kills_and_the_third_leaves() -> None:
    ladder = Ladder()
    presses = [ladder.press(at, is_key=False) for at in (0.0, 60.0, 61.0, 62.0)]
    assert presses == [INTERRUPT, KILL, LEAVE, LEAVE]


def test_a_key_is_the_jobs_own_however_often_it_is_pressed_slowly() -> None:
    ladder = Ladder()
    assert [ladder.press(at, is_key=True) for at in (0.0, 1.1, 2.2, 3.3, 4.4)] == [PASS] * 5


@pytest.mark.parametrize(("third", "meaning"), [(2.0, KILL), (2.01, PASS)])
def test_three_keys_within_two_seconds_kill(third: float, meaning: str) -> None:
    ladder = Ladder()
    assert [ladder.press(at, is_key=True) for at in (0.0, 1.0, third)] == [PASS, PASS, meaning]


def test_after_the_kill_the_next_press_leaves() -> None:
    ladder = Ladder()
    presses = [ladder.press(0.1 * n, is_key=True) for n in range(4)]
    assert presses == [PASS, PASS, KILL, LEAVE]


def test_a_job_that_never_began_has_the_planes_word() -> None:
    refused = {"state": "failed", "reason": "unschedulable", "exit_code": 125, "message": "no GPU"}
    report = ExitReport.of_job(refused)
    assert (report.outcome, report.exit_code, report.reason) == ("failed", 125, "unschedulable")
    assert ExitReport.of_job({"state": "lost", "exit_code": None}).exit_code == 125


def test_a_client_dies_by_the_jobs_signal_and_keeps_its_timeouts_code() -> None:
    code = (
        "from gpulayer.sdk.interrupts import ExitReport, end_as; "
        "end_as(ExitReport({!r}, {}, signal={}))"
    )
    for outcome, exit_code, signum, expected in (
        ("failed", 139, 11, -signal.SIGSEGV),
        ("cancelled", 130, 2, -signal.SIGINT),
        ("timed_out", 124, 15, 124),
        ("failed", 3, None, 3),
    ):
        command = [sys.executable, "-c", code.format(outcome, exit_code, signum)]
        assert subprocess.run(command).returncode == expected


def decided(redirections: str, folder: Path) -> str:
    """What a client without a terminal of its own finds its streams to be."""
    script = f'"$0" -c "$1" {redirections}'
    command = ["setsid", "sh", "-c", script, sys.executable, DECIDE]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout or (folder / "out").read_text()


def test_pipes_stay_pipes_and_input_is_handed_on(tmp_path: Path) -> None:
    assert decided("</dev/null", tmp_path) == (
        '[{"0": "passed", "1": "pipe", "2": "pipe"}, false, "plain"]\n'
    )


def test_two_outputs_that_are_one_file_are_one_channel(tmp_path: Path) -> None:
    assert '"2": "pipe"}, true, "plain"]' in decided("> out 2>&1", tmp_path)


def test_a_closed_stream_is_filled_before_anything_else_takes_its_number(tmp_path: Path) -> None:
    assert '"plain"]' in decided("<&- 2>&- > out", tmp_path)


def test_an_outlet_never_blocks_and_loses_nothing() -> None:
    read, write = os.pipe()
    outlet = Outlet(write)
    data = os.urandom(1 << 20)
    outlet.put(data)
    assert outlet.is_full
    assert os.get_blocking(write), "the shared description must keep its mode"
    received = b""
    while len(received) < len(data):
        received += os.read(read, 1 << 20)
        outlet.flush()
    assert received == data
    assert not outlet.is_full
    os.close(read)
    outlet.put(b"more")
    assert outlet.has_left
    assert not outlet.is_full
    os.close(write)
    if outlet.fd != write:
        os.close(outlet.fd)
