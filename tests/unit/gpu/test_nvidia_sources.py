"""NVML and nvidia-smi must give the same devices wherever both can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.gpu.discovery import GpuReport, discover_gpus
from tests.unit.gpu.fakes.load import NO_NVML, fake

BOTH = ["8xh100", "rtx4090", "a100-mig", "gb10", "wsl"]


def report(name: str, source: str, folder: Path, owned: tuple[int, ...] = ()) -> GpuReport:
    answers = {"nvml": NO_NVML} if source == "nvidia-smi" else {}
    machine = fake(name, folder / source, answers=answers)
    found = discover_gpus(machine.machine, owned)
    asked_smi = any(command.startswith("nvidia-smi") for command in machine.asked)
    assert asked_smi == (source == "nvidia-smi")
    return found


@pytest.mark.parametrize("name", BOTH)
def test_both_sources_give_the_same_devices(name: str, tmp_path: Path) -> None:
    assert report(name, "nvml", tmp_path) == report(name, "nvidia-smi", tmp_path)


@pytest.fixture(params=["nvml", "nvidia-smi"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_eight_h100_in_bus_order_with_their_links(source: str, tmp_path: Path) -> None:
    found = report("8xh100", source, tmp_path, owned=(777,))
    assert [gpu.index for gpu in found.gpus] == list(range(8))
    assert {gpu.model for gpu in found.gpus} == {"h100"}
    assert {gpu.memory_gb for gpu in found.gpus} == {85.521}
    assert {gpu.link_group for gpu in found.gpus} == {0}
    assert [gpu.numa_node for gpu in found.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert (found.driver_version, found.cuda_version) == ("550.54.15", "12.4")
    assert found.gpu_note is None


def test_a_process_of_somebody_else_is_foreign_and_ours_is_not(source: str, tmp_path: Path) -> None:
    gpus = report("8xh100", source, tmp_path, owned=(777,)).gpus
    assert [gpu.index for gpu in gpus if gpu.foreign_pids] == [3]
    assert gpus[3].foreign_pids == (4242,)
    assert gpus[3].foreign_memory_gb == pytest.approx(42.95, abs=0.01)
    assert gpus[0].used_memory_gb == pytest.approx(21.48, abs=0.01)
    assert gpus[0].utilization == 0.97


def test_a_card_with_worn_out_memory_is_unhealthy_and_says_why(source: str, tmp_path: Path) -> None:
    gpus = report("8xh100", source, tmp_path).gpus
    assert [gpu.index for gpu in gpus if not gpu.healthy] == [5]
    assert (
        gpus[5].unhealthy_why == "bad memory rows can no longer be replaced; the card needs service"
    )


def test_a_desktop_that_draws_does_not_hold_the_card(source: str, tmp_path: Path) -> None:
    (gpu,) = report("rtx4090", source, tmp_path).gpus
    assert (gpu.model, gpu.compute_capability) == ("rtx4090", "8.9")
    assert gpu.foreign_pids == ()
    assert gpu.numa_node is None
    assert gpu.link_group is None


def test_mig_instances_are_devices_and_their_parent_is_not(source: str, tmp_path: Path) -> None:
    gpus = report("a100-mig", source, tmp_path).gpus
    assert [gpu.uuid[:3] for gpu in gpus] == ["MIG", "MIG", "MIG", "GPU"]
    assert [gpu.model for gpu in gpus] == ["a100-3g.20gb", "a100-2g.10gb", "a100-1g.5gb", "a100"]
    assert gpus[0].name == "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
    assert gpus[0].mig_parent not in [gpu.uuid for gpu in gpus]
    assert gpus[0].memory_gb == pytest.approx(21.07, abs=0.01)
    assert gpus[0].utilization is None


def test_a_foreign_process_holds_only_its_own_mig_instance(source: str, tmp_path: Path) -> None:
    gpus = report("a100-mig", source, tmp_path).gpus
    assert [gpu.foreign_pids for gpu in gpus] == [(), (5151,), (), ()]


def test_unified_memory_is_the_hosts(source: str, tmp_path: Path) -> None:
    (gpu,) = report("gb10", source, tmp_path).gpus
    assert (gpu.memory_kind, gpu.model) == ("unified", "gb10")
    assert gpu.memory_gb == pytest.approx(128.501, abs=0.001)
    assert gpu.used_memory_gb is None
    assert gpu.healthy


def test_under_wsl_pids_are_not_compared(source: str, tmp_path: Path) -> None:
    (gpu,) = report("wsl", source, tmp_path).gpus
    assert (gpu.model, gpu.foreign_pids) == ("rtx4070-laptop", ())
