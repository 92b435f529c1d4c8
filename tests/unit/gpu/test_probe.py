"""The two programs that touch drivers, and what is made of how they end."""

from __future__ import annotations

import json
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpulayer.gpu import nvml_child, torch_child
from gpulayer.gpu.machine import Completed, Machine
from gpulayer.gpu.nvidia import CHILD
from gpulayer.gpu.nvidia_cards import Reading
from gpulayer.gpu.probe import TorchReport, probe_torch
from tests.unit.gpu.fakes.nvml import FakeNvml


def answering(ended: Completed) -> Any:
    def run(argv: Sequence[str], seconds: float) -> Completed:
        assert list(argv[:2]) == ["some-python", "-I"]
        assert seconds == 60.0
        return ended

    return run


WORKS = f'warning\n{torch_child.MARK}{{"version": "2.6.0", "cuda": 2, "mps": false, "why": ""}}\n'


@pytest.mark.parametrize(
    ("ended", "report"),
    [
        (Completed(0, WORKS), TorchReport("2.6.0", 2)),
        (Completed(None, problem="timeout"), TorchReport(why="torch did not answer within 60 s")),
        (Completed(-11), TorchReport(why="torch was ended by signal 11")),
        (Completed(1, "", "Traceback\nImportError: x"), TorchReport(why="ImportError: x")),
    ],
)
def test_however_torch_ends_there_is_an_answer(ended: Completed, report: TorchReport) -> None:
    assert probe_torch("some-python", run=answering(ended)) == report


def test_a_python_without_torch_says_so(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    report = probe_torch(str(tmp_path / "bare" / "bin" / "python"))
    assert (report.version, report.cuda_devices) == (None, 0)
    assert report.why == "ModuleNotFoundError: No module named 'torch'"


class FakeTorch:
    """Torch as far as the probe goes; `broken` is the first device that cannot compute."""

    __version__ = "2.6.0+cu124"

    def __init__(self, devices: int, broken: int | None = None) -> None:
        self.cuda = SimpleNamespace(device_count=lambda: devices)
        self.backends = SimpleNamespace()
        self.broken = broken

    def ones(self, shape: tuple[int, int], device: str) -> Any:
        if device == f"cuda:{self.broken}":
            raise RuntimeError("no kernel image is available for execution on the device")
        return _Ones()


class _Ones:
    def __matmul__(self, other: _Ones) -> _Ones:
        return self

    def sum(self) -> _Ones:
        return self

    def item(self) -> float:
        return 512.0


def test_every_device_computes_once() -> None:
    said = torch_child.answer(FakeTorch(2))
    assert said == {"version": "2.6.0+cu124", "cuda": 2, "mps": False, "why": ""}


def test_a_wheel_without_kernels_for_the_card_is_caught() -> None:
    said = torch_child.answer(FakeTorch(2, broken=0))
    assert said["cuda"] == 0
    assert said["why"].startswith("cuda:0: no kernel image")


def test_the_nvml_probe_reads_what_answers_and_names_what_does_not() -> None:
    said = json.loads(json.dumps(nvml_child.read(FakeNvml())))
    reading = Reading.from_json(said)
    (card,) = reading.cards
    assert (reading.driver, reading.cuda) == ("550.54.15", "12.4")
    assert (card.memory, card.compute_capability, card.shared) == (85520809984, "9.0", False)
    assert card.links == ("switch",)
    assert card.faults == ("remap-pending",)
    assert [(p.pid, p.memory, p.instance) for p in card.processes] == [(7, None, None)]
    assert reading.silent == ("GPU 1 does not answer: error 15",)


def test_the_nvml_probe_always_prints_one_line_of_json() -> None:
    machine = Machine()
    ended = machine.run([sys.executable, "-I", str(CHILD)], 60)
    said = json.loads(ended.out)
    assert ended.ok
    assert "cards" in said or isinstance(said["error"], int)
