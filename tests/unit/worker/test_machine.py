"""What this machine says of itself, and of Pythons that it is asked about."""

from __future__ import annotations

import stat
import sys
import venv
from pathlib import Path

from gpulayer.worker.machine import ThisMachine


def _with_torch(folder: Path) -> Path:
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    metadata = packages / "torch-2.3.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.3.0\n")
    return folder / "bin" / "python"


def _known(machine: ThisMachine, path: Path) -> dict[str, object]:
    found = machine.probe([str(path)])["interpreters"]
    (known,) = [python for python in found if python["path"] == str(path)]
    return dict(known)


def test_an_environment_is_known_by_the_path_that_a_job_names(tmp_path: Path) -> None:
    machine = ThisMachine(str(tmp_path))
    known = _known(machine, _with_torch(tmp_path / "env"))
    assert known["version"] == ".".join(map(str, sys.version_info[:3]))
    assert known["frameworks"]["torch"] == "2.3.0"  # type: ignore[index]


def test_a_shim_is_known_by_what_it_starts(tmp_path: Path) -> None:
    shim = tmp_path / "python"
    shim.write_text(f'#!/bin/sh\nexec "{_with_torch(tmp_path / "env")}" "$@"\n')
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    known = _known(ThisMachine(str(tmp_path)), shim)
    assert known["frameworks"]["torch"] == "2.3.0"  # type: ignore[index]


def test_what_is_no_python_has_nothing(tmp_path: Path) -> None:
    known = _known(ThisMachine(str(tmp_path)), tmp_path / "missing")
    assert known == {"path": str(tmp_path / "missing"), "version": None, "frameworks": {}}


def test_the_workers_own_python_stays_the_first(tmp_path: Path) -> None:
    machine = ThisMachine(str(tmp_path))
    machine.ask(lambda _: None)
    first = machine.at_once()["interpreters"][0]
    machine.probe([str(_with_torch(tmp_path / "env"))])
    assert machine.at_once()["interpreters"][0] == first
