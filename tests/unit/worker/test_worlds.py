"""What a task runs in is one document for all that run alike, and is told once."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpulayer.contracts.capabilities import GpuDevice, WorkerCapabilities
from gpulayer.worker.worlds import Worlds

MACHINE = WorkerCapabilities(
    "lab",
    "linux",
    "x86_64",
    4.0,
    gpus=tuple(GpuDevice(f"GPU-{n}", n, "nvidia", "A100", "a100", 80.0, "dedicated") for n in "12"),
    driver_version="550.54",
)


class Desk:
    """A worker with one virtual environment, and what it would have stored."""

    def __init__(self, folder: Path) -> None:
        self.machine = MACHINE
        self.stored: dict[str, dict[str, Any]] = {}
        self.worlds = Worlds("lab", lambda: self.machine)
        self.site = folder / "lib" / "python3.11" / "site-packages"
        self.python = folder / "bin" / "python"
        self.site.mkdir(parents=True)
        self.python.parent.mkdir()
        real = folder / "real" / "python3.11"
        real.parent.mkdir()
        real.write_bytes(b"\x7fELF")
        real.chmod(0o755)
        self.python.symlink_to(real)
        (folder / "pyvenv.cfg").write_text("version = 3.11.2\n")
        self.install("numpy", "1.26.4")

    def install(self, name: str, version: str) -> None:
        record = self.site / f"{name}-{version}.dist-info"
        record.mkdir()
        (record / "METADATA").touch()

    def of(self, gpus: tuple[str, ...] = (), python: str | None = None) -> str:
        origin = {"interpreter": {"path": python or str(self.python)}}
        assignment = SimpleNamespace(gpus=gpus, origin=origin)
        task: Any = SimpleNamespace(
            assignment=assignment, python=None, image=None, interpreter="/none/python"
        )
        return self.worlds.of(task)

    def told(self, digest: str) -> dict[str, Any]:
        self.worlds.tell(digest, lambda files: self.stored.update(
            (name, json.loads(text)) for name, text in files))  # fmt: skip
        return self.stored[digest]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_it_says_machine_devices_python_and_packages(desk: Desk) -> None:
    told = desk.told(desk.of(("GPU-2",)))
    assert told["python"] == {
        "path": str(desk.python), "version": "3.11.2", "packages": {"numpy": "1.26.4"}
    }  # fmt: skip
    assert [gpu["uuid"] for gpu in told["gpus"]] == ["GPU-2"]
    assert (told["worker"], told["driver"]) == ("lab", "550.54")
    assert "driver" not in desk.told(desk.of())  # it sees none


def test_tasks_alike_share_it_and_another_package_makes_another(desk: Desk) -> None:
    before = desk.of()
    assert desk.of() == before
    assert desk.of(("GPU-1",)) != before
    desk.machine = dataclasses.replace(MACHINE, disk_gb=1.0)  # not a part of it
    assert desk.of() == before
    desk.install("torch", "2.5.0")
    assert desk.told(desk.of())["python"]["packages"] == {"numpy": "1.26.4", "torch": "2.5.0"}


def test_what_no_file_says_is_not_known_rather_than_nothing(desk: Desk) -> None:
    told = desk.told(desk.of(python="/nowhere/shims/python"))
    assert told["python"] == {
        "path": "/nowhere/shims/python", "version": None, "packages": None
    }  # fmt: skip


def test_it_is_told_until_it_was_stored(desk: Desk) -> None:
    digest = desk.of()

    def away(files: list[tuple[str, bytes]]) -> None:
        raise OSError("no plane")

    with pytest.raises(OSError, match="no plane"):
        desk.worlds.tell(digest, away)
    assert not desk.worlds.is_told(digest)
    assert desk.told(digest)
    assert desk.worlds.is_told(digest)
