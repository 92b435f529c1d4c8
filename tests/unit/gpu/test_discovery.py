from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.gpu.discovery import discover, discover_fast, discover_gpus, with_gpus
from gpulayer.gpu.machine import Completed, Machine
from tests.unit.gpu.fakes.load import fake

MEMORY = {"/proc/meminfo": "MemTotal:       16000000 kB\n"}


def card(bus: str) -> dict[str, str]:
    folder = f"/sys/bus/pci/devices/{bus}"
    return {f"{folder}/vendor": "0x10de\n", f"{folder}/class": "0x030000\n"}


def test_without_a_sign_of_a_gpu_the_answer_is_complete_and_nothing_is_started(
    tmp_path: Path,
) -> None:
    machine = fake("", tmp_path, files=MEMORY)
    fast = discover_fast(machine.machine)
    assert fast.gpus == ()
    assert fast.gpu_note == (
        "no GPU found on this machine (nvidia-smi: not installed). CPU jobs work."
    )
    assert machine.asked == []


@pytest.mark.parametrize("name", ["8xh100", "rtx4090", "gb10", "wsl", "wedged", "2xmi300x"])
def test_with_a_sign_of_a_gpu_the_first_answer_is_not_known_yet(name: str, tmp_path: Path) -> None:
    machine = fake(name, tmp_path)
    fast = discover_fast(machine.machine)
    assert fast.gpus is None
    assert fast.memory_gb is not None
    assert machine.asked == []


def test_a_mac_does_not_know_at_first_either(tmp_path: Path) -> None:
    machine = fake("m2", tmp_path, platform="darwin")
    assert discover_fast(machine.machine).gpus is None
    assert machine.asked == []


def test_a_wedged_driver_is_a_note_and_is_asked_once(tmp_path: Path) -> None:
    machine = fake("wedged", tmp_path)
    report = discover_gpus(machine.machine)
    assert report.gpus == ()
    assert report.gpu_note == (
        "no GPU found on this machine (the NVIDIA driver did not answer within 10 s; 2 of its "
        "cards are in this machine). CPU jobs work."
    )
    assert machine.asked == ["nvml"]


def test_nvidia_smi_that_hangs_is_the_same_note(tmp_path: Path) -> None:
    hang = Completed(None, problem="timeout")
    machine = fake("", tmp_path, answers={"nvidia-smi -q -x": hang}, files=card("0000:01:00.0"))
    note = discover_gpus(machine.machine).gpu_note
    assert note is not None
    assert "did not answer within 10 s; 1 of its cards is in this machine" in note


def test_a_driver_updated_under_its_feet_needs_a_reboot(tmp_path: Path) -> None:
    said = Completed(0, '{"error": 18, "text": "RM has detected an NVML/RM version mismatch."}')
    machine = fake("8xh100", tmp_path, answers={"nvml": said})
    note = discover_gpus(machine.machine).gpu_note
    assert note is not None
    assert "a reboot mends it" in note


def test_what_nvidia_smi_complains_of_is_passed_on(tmp_path: Path) -> None:
    said = Completed(
        9,
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
        "that the latest NVIDIA driver is installed and running.\n",
    )
    machine = fake("", tmp_path, answers={"nvidia-smi -q -x": said})
    assert discover_gpus(machine.machine).gpu_note == (
        "no GPU found on this machine (nvidia-smi says: NVIDIA-SMI has failed because it couldn't "
        "communicate with the NVIDIA driver). CPU jobs work."
    )


def test_a_lost_card_is_named_with_its_xid_and_the_others_are_used(tmp_path: Path) -> None:
    whole = fake("rtx4090", tmp_path / "whole").machine
    nvml = whole.run(["nvml_child.py"], 1).out
    silent = '"silent": [{"index": 1, "text": "GPU is lost"}]'
    machine = fake(
        "rtx4090",
        tmp_path / "lost",
        answers={"nvml": Completed(0, nvml.replace('"silent": []', silent))},
        files={
            "/dev/kmsg": "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        },
    )
    report = discover_gpus(machine.machine)
    assert len(report.gpus) == 1
    assert report.gpu_note == "GPU 1 does not answer: GPU is lost (Xid 79 at 0000:3b:00.0)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ERR!", "the driver has lost it"),
        ("[Unknown Error]", "the driver has lost it"),
        ("[GPU requires reset]", "it must be reset"),
    ],
)
def test_a_value_that_is_an_error_makes_the_card_unhealthy(
    text: str, why: str, tmp_path: Path
) -> None:
    whole = fake("rtx4090", tmp_path / "whole").machine
    xml = whole.run(["nvidia-smi", "-q", "-x"], 1).out
    machine = fake(
        "rtx4090",
        tmp_path / "broken",
        answers={
            "nvml": Completed(-11),
            "nvidia-smi -q -x": Completed(0, xml.replace("<total>24564 MiB", f"<total>{text}")),
        },
    )
    (gpu,) = discover_gpus(machine.machine).gpus
    assert gpu.healthy is False
    assert gpu.unhealthy_why is not None
    assert gpu.unhealthy_why.startswith(why)
    assert (gpu.memory_gb, gpu.memory_kind) == (None, "dedicated")


def test_a_card_without_a_driver_is_named(tmp_path: Path) -> None:
    machine = fake("", tmp_path, files=card("0000:01:00.0"))
    assert discover_fast(machine.machine).gpu_note == (
        "an NVIDIA card is in this machine, but no NVIDIA driver is loaded. CPU jobs work."
    )


def test_a_container_that_was_given_none_says_so(tmp_path: Path) -> None:
    machine = fake("", tmp_path, environ={"NVIDIA_VISIBLE_DEVICES": "void"})
    note = discover_fast(machine.machine).gpu_note
    assert note is not None
    assert note.startswith("this container was started without GPUs")


def test_the_operators_limit_leaves_only_those_devices(tmp_path: Path) -> None:
    machine = fake("8xh100", tmp_path, environ={"CUDA_VISIBLE_DEVICES": "6,2"})
    assert [gpu.index for gpu in discover_gpus(machine.machine).gpus] == [2, 6]


def test_a_limit_that_hides_all_is_the_reason(tmp_path: Path) -> None:
    machine = fake("8xh100", tmp_path, environ={"CUDA_VISIBLE_DEVICES": ""})
    report = discover_gpus(machine.machine)
    assert report.gpus == ()
    assert report.gpu_note is not None
    assert "hidden from GPUlayer by CUDA_VISIBLE_DEVICES=''" in report.gpu_note


def test_an_apple_chip_is_one_unified_device(tmp_path: Path) -> None:
    (gpu,) = discover_gpus(fake("m2", tmp_path, platform="darwin").machine).gpus
    assert (gpu.uuid, gpu.model, gpu.memory_kind) == ("apple-gpu-0", "m2", "unified")
    assert gpu.memory_gb == pytest.approx(17.18, abs=0.001)
    assert gpu.name == "Apple M2 (10-core GPU)"


def test_an_intel_mac_has_none_and_says_so(tmp_path: Path) -> None:
    command = "sysctl hw.memsize machdep.cpu.brand_string hw.optional.arm64"
    chip = "machdep.cpu.brand_string: Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz\n"
    machine = fake("", tmp_path, platform="darwin", answers={command: Completed(1, chip)})
    report = discover_gpus(machine.machine)
    assert report.gpus == ()
    assert report.gpu_note is not None
    assert "no Apple GPU (Intel(R) Core(TM) i7-9750H" in report.gpu_note


def test_a_mac_in_a_virtual_machine_cannot_compute(tmp_path: Path) -> None:
    listing = '{"SPDisplaysDataType": [{"sppci_model": "Apple Paravirtual device"}]}'
    answers = {"system_profiler SPDisplaysDataType -json": Completed(0, listing)}
    machine = fake("m2", tmp_path, platform="darwin", answers=answers)
    assert discover_gpus(machine.machine).gpus == ()


@pytest.mark.parametrize("silent", [[], ["amd-smi"], ["amd-smi", "rocm-smi"]])
def test_amd_devices_are_the_kernels_whichever_program_names_them(
    silent: list[str], tmp_path: Path
) -> None:
    commands = {
        "amd-smi": "amd-smi static --asic --bus --vram --json",
        "rocm-smi": "rocm-smi --showproductname --showbus --showmeminfo vram --json",
    }
    answers = {commands[name]: Completed(1, "not supported") for name in silent}
    report = discover_gpus(fake("2xmi300x", tmp_path, answers=answers).machine)
    assert [gpu.uuid for gpu in report.gpus] == ["GPU-21b6d61638a86f8c", "GPU-0f3a5d61638a8001"]
    assert {gpu.memory_gb for gpu in report.gpus} == {206.142}
    assert {gpu.link_group for gpu in report.gpus} == {0}
    named = "gfx942" if len(silent) == 2 else "mi300x"
    assert {gpu.model for gpu in report.gpus} == {named}
    assert report.driver_version == "6.8.5"


def test_small_amd_cards_without_a_number_are_told_apart(tmp_path: Path) -> None:
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    card = "simd_count 64\ngfx_target_version 110000\nlocation_id {}\nunique_id 0\n"
    files = {
        "/dev/kfd": "",
        f"{nodes}/1/properties": card.format(0x300),
        f"{nodes}/2/properties": card.format(0x400),
    }
    gpus = discover_gpus(fake("", tmp_path, files=files).machine).gpus
    assert [gpu.uuid for gpu in gpus] == ["amd-0000:03:00.0", "amd-0000:04:00.0"]
    assert [(gpu.model, gpu.memory_gb, gpu.link_group) for gpu in gpus] == [
        ("gfx1100", None, None)
    ] * 2


def test_a_full_report_survives_the_wire(tmp_path: Path) -> None:
    machine = fake("a100-mig", tmp_path).machine
    whole = with_gpus(discover_fast(machine), discover_gpus(machine))
    assert WorkerCapabilities.from_json(whole.to_json()) == whole


def test_in_a_container_the_drivers_pids_mean_nothing(tmp_path: Path) -> None:
    machine = fake("8xh100", tmp_path).machine
    link = machine.path("/proc/self/ns/pid")
    link.parent.mkdir(parents=True)
    link.symlink_to("pid:[4026532999]")
    assert all(gpu.foreign_pids == () for gpu in discover_gpus(machine).gpus)


def test_this_machine_answers_at_once() -> None:
    fast = discover_fast(Machine())
    assert fast.cpu_cores > 0
    assert fast.memory_gb is not None
    assert fast.disk_gb is not None


def test_one_call_gives_everything_about_this_machine() -> None:
    whole = discover()
    assert whole.gpus is not None
    assert whole.gpus or whole.gpu_note
    assert Path(sys.executable).resolve() in [Path(p.path).resolve() for p in whole.interpreters]
