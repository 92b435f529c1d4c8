from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.contracts.capabilities import GpuDevice, WorkerCapabilities
from gpulayer.gpu.frameworks import Drivers, frameworks

CUDA_12 = Drivers(cuda="12.2")


def package(folder: Path, name: str, metadata: bool = True) -> None:
    (folder / name).mkdir(parents=True)
    if metadata:
        (folder / name / "METADATA").write_text("")


def torch(folder: Path, version: str, built_for: str) -> None:
    package(folder, f"torch-{version}.dist-info")
    (folder / "torch").mkdir()
    (folder / "torch" / "version.py").write_text(
        "from typing import Optional\n\n"
        f"__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {built_for}\n"
        "git_version = 'abc'\nhip: Optional[str] = None\n"
    )


@pytest.mark.parametrize(
    ("entry", "known"),
    [
        ("numpy-2.1.0.dist-info", {"numpy": "2.1.0"}),
        ("scikit_learn-1.5.2.dist-info", {"scikit-learn": "1.5.2"}),
        ("cupy_cuda12x-13.3.0.dist-info", {"cupy": "13.3.0"}),
        ("tensorflow_cpu-2.18.0.dist-info", {"tensorflow": "2.18.0"}),
        ("jaxlib-0.4.35.dev20241010+cuda12.dist-info", {"jaxlib": "0.4.35.dev20241010+cuda12"}),
        ("requests-2.32.0.dist-info", {}),
        ("torch", {}),
    ],
)
def test_names_are_those_that_a_job_asks_for(
    entry: str, known: dict[str, str], tmp_path: Path
) -> None:
    package(tmp_path, entry)
    assert frameworks([tmp_path], Drivers()) == known


def test_the_leavings_of_an_interrupted_removal_are_not_installed(tmp_path: Path) -> None:
    package(tmp_path, "numpy-2.1.0.dist-info", metadata=False)
    assert frameworks([tmp_path], Drivers()) == {}


def test_condas_older_form_of_metadata_counts(tmp_path: Path) -> None:
    package(tmp_path, "torch-2.3.1-py3.11.egg-info", metadata=False)
    assert frameworks([tmp_path], Drivers()) == {"torch": "2.3.1"}


@pytest.mark.parametrize(
    ("built_for", "driver", "usable"),
    [
        ("'12.4'", "12.2", True),
        ("'11.8'", "12.2", True),
        ("'13.0'", "12.2", False),
        ("None", "12.2", False),
        ("'12.4'", None, False),
    ],
)
def test_torch_uses_cuda_where_its_wheel_and_the_driver_agree(
    built_for: str, driver: str | None, usable: bool, tmp_path: Path
) -> None:
    torch(tmp_path, "2.6.0", built_for)
    found = frameworks([tmp_path], Drivers(cuda=driver))
    assert found.get("torch.cuda") == ("2.6.0" if usable else None)


def test_torch_uses_the_gpu_of_a_mac(tmp_path: Path) -> None:
    torch(tmp_path, "2.6.0", "None")
    found = frameworks([tmp_path], Drivers(mps=True))
    assert found == {"torch": "2.6.0", "torch.mps": "2.6.0"}


def test_the_first_torch_on_the_path_is_the_one_that_counts(tmp_path: Path) -> None:
    torch(tmp_path / "venv", "2.6.0", "None")
    torch(tmp_path / "system", "2.4.0", "'12.4'")
    found = frameworks([tmp_path / "venv", tmp_path / "system"], CUDA_12)
    assert found == {"torch": "2.6.0"}


def test_a_driver_without_a_device_runs_nothing() -> None:
    bare = WorkerCapabilities("host", "linux", "x86_64", 8, cuda_version="12.4")
    card = GpuDevice("GPU-1", 0, "nvidia", "NVIDIA H100", "h100", 80.0, "dedicated")
    full = WorkerCapabilities("host", "linux", "x86_64", 8, gpus=(card,), cuda_version="12.4")
    assert Drivers.of(bare) == Drivers()
    assert Drivers.of(full) == Drivers(cuda="12.4")
