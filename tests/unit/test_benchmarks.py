"""What is measured beside others is told truly, and nothing of a peer is left."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from benchmarks.beside import peers, table, telling
from benchmarks.beside.measures import MEASURES
from benchmarks.figures import Figure
from tests.support.supervisor import eventually


def figure(name: str, measure: str, value: float) -> Figure:
    return Figure(name, value, MEASURES[measure].unit, 1, measure=measure)


def test_a_ratio_above_one_says_that_ours_is_better() -> None:
    found = [figure("gpulayer", "call", 2.0), figure("Ray tasks", "call", 4.0),
             figure("gpulayer", "map", 50.0), figure("Ray tasks", "map", 100.0)]  # fmt: skip
    told = "\n".join(table.rows(found))
    assert re.findall(r"Ray tasks.* (\S+) x", told) == ["2.00", "0.50"]
    first = [block.splitlines()[1].split()[0] for block in told.strip().split("\n\n")]
    assert first == ["gpulayer", "Ray"], "the best comes first, of a time and of a rate"


def test_the_picture_is_well_formed_and_says_each_figure() -> None:
    found = [figure("a < b", "call", 2.0), figure("gpulayer", "call", 1234.5)]
    drawn = ElementTree.fromstring(table.picture(found, "2 cores & more"))
    texts = ["".join(text.itertext()) for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "2.0", "1,234.5"} <= set(texts)


def test_each_peer_is_driven_by_a_program_that_is_there() -> None:
    here = Path(peers.__file__).parent
    driven = {peer.script for peer in peers.PEERS if peer.script}
    assert driven == {file.name for file in here.glob("with_*.py")}
    assert peers.PEERS[0].name == peers.OURS


@pytest.mark.e2e
def test_nothing_that_a_peer_started_is_left_and_what_it_told_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "telling.py").write_text(Path(telling.__file__).read_text())
    (tmp_path / "with_leak.py").write_text(
        "import subprocess, sys, telling\n"
        "telling.tell('call', 7.0, 1)\n"
        "far = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "sys.exit(f'left {far.pid}')\n"
    )
    monkeypatch.setattr(peers, "HERE", tmp_path)
    monkeypatch.setattr(peers, "PEERS", [peers.Peer("leaks", "nothing", script="with_leak.py")])
    monkeypatch.setattr(peers, "_plain", lambda: iter(()))
    assert [(f.name, f.measure, f.value) for f in peers.figures(tmp_path)] == [("leaks", "call", 7)]
    told = re.search(r"leaks ended with 1: left (\d+)", capsys.readouterr().out)
    assert told is not None
    eventually(lambda: not psutil.pid_exists(int(told[1])) or is_zombie(int(told[1])))


def is_zombie(pid: int) -> bool:
    """Ended, and not yet buried by whoever adopted it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True
