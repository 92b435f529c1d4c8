"""Doctor tries torch on the GPUs, in a child process, where there is something to try."""

from __future__ import annotations

import dataclasses
import json
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpulayer.cli.checkup import torch_of_terminal
from gpulayer.gpu.machine import Completed, Machine
from gpulayer.gpu.torch_child import MARK
from tests.unit.gpu.fakes.load import fake


def _with_torch(folder: Path) -> str:
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    metadata = packages / "torch-2.6.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n")
    return str(folder / "bin" / "python")


def _answering(folder: Path, **said: object) -> Machine:
    def run(argv: Sequence[str], seconds: float) -> Completed:
        return Completed(0, MARK + json.dumps(said))

    return dataclasses.replace(fake("rtx4090", folder).machine, run=run)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"version": "2.6.0", "cuda": 1}, "2.6.0 computes on the GPU"),
        (
            {"version": "2.6.0", "cuda": 0, "why": "cuda:0: no kernel image"},
            "2.6.0 does not use the GPU: cuda:0: no kernel image",
        ),
    ],
)
def test_it_says_what_a_computation_found(
    said: dict[str, object], shown: str, tmp_path: Path
) -> None:
    machine = _answering(tmp_path / "machine", **said)
    assert torch_of_terminal(machine, _with_torch(tmp_path / "env")) == {"torch": shown}


def test_without_a_gpu_nothing_is_tried(tmp_path: Path) -> None:
    here = fake("", tmp_path / "machine")
    assert torch_of_terminal(here.machine, _with_torch(tmp_path / "env")) == {}
    assert here.asked == []


def test_without_torch_nothing_is_tried(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    here = fake("rtx4090", tmp_path / "machine")
    assert torch_of_terminal(here.machine, str(tmp_path / "env" / "bin" / "python")) == {}
