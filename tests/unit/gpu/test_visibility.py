"""The literals matter: a variable with a typing error is ignored in silence by every driver."""

from __future__ import annotations

import pytest

from gpulayer.contracts.capabilities import GpuDevice, Vendor
from gpulayer.gpu.visibility import allowed, for_task


def gpu(uuid: str, index: int = 0, vendor: Vendor = "nvidia", **more: str) -> GpuDevice:
    return GpuDevice(uuid, index, vendor, "a device", "model", 24.0, "dedicated", **more)


def test_a_task_sees_its_devices_by_full_uuid_in_bus_order() -> None:
    change = for_task([gpu("GPU-aaaa-1"), gpu("GPU-bbbb-2")])
    assert change.set == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-aaaa-1,GPU-bbbb-2",
        "NVIDIA_VISIBLE_DEVICES": "GPU-aaaa-1,GPU-bbbb-2",
        "HIP_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "",
    }
    assert change.unset == ("GPU_DEVICE_ORDINAL",)


def test_a_task_without_devices_sees_none() -> None:
    change = for_task([])
    assert change.set == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "",
        "HIP_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "",
    }


def test_a_mig_instance_is_named_by_its_own_uuid() -> None:
    assert for_task(["MIG-1234"]).set["CUDA_VISIBLE_DEVICES"] == "MIG-1234"


def test_amd_devices_are_named_in_one_variable_only() -> None:
    change = for_task([gpu("GPU-21b6d61638a86f8c", vendor="amd")])
    assert change.set["ROCR_VISIBLE_DEVICES"] == "GPU-21b6d61638a86f8c"
    assert set(change.unset) >= {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}
    assert not set(change.set) & set(change.unset)


def test_the_gpu_of_a_mac_needs_no_variable() -> None:
    assert for_task(["apple-gpu-0"], "apple").set["CUDA_VISIBLE_DEVICES"] == ""


CARDS = [gpu("GPU-aa11", 0), gpu("GPU-aa22", 1), gpu("GPU-bb33", 2)]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("0,2", ["GPU-aa11", "GPU-bb33"]),
        ("2,0", ["GPU-aa11", "GPU-bb33"]),
        ("1,1", ["GPU-aa22"]),
        ("GPU-bb33", ["GPU-bb33"]),
        ("GPU-b", ["GPU-bb33"]),
        ("GPU-aa", []),
        (" 0 , GPU-bb33 ", ["GPU-aa11", "GPU-bb33"]),
        ("0,-1,2", ["GPU-aa11"]),
        ("0,7,2", ["GPU-aa11"]),
        ("NoDevFiles", []),
        ("", []),
    ],
)
def test_an_inherited_list_is_read_as_cuda_reads_it(value: str, left: list[str]) -> None:
    kept = allowed(CARDS, {"CUDA_VISIBLE_DEVICES": value})
    assert [one.uuid for one in kept] == left


def test_without_a_list_nothing_is_limited() -> None:
    assert allowed(CARDS, {"ROCR_VISIBLE_DEVICES": ""}) == tuple(CARDS)


PARTS = [
    gpu("MIG-1111", 0, mig_parent="GPU-aa11"),
    gpu("MIG-2222", 0, mig_parent="GPU-aa11"),
    gpu("GPU-bb33", 1),
]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("MIG-2222", ["MIG-2222"]),
        ("0", ["MIG-1111", "MIG-2222"]),
        ("GPU-aa11", ["MIG-1111", "MIG-2222"]),
        ("MIG-2222,1", ["MIG-2222", "GPU-bb33"]),
        ("MIG-GPU-aa11/1/0", []),
    ],
)
def test_mig_instances_are_limited_by_their_uuid_or_their_cards(
    value: str, left: list[str]
) -> None:
    kept = allowed(PARTS, {"CUDA_VISIBLE_DEVICES": value})
    assert [one.uuid for one in kept] == left


def test_each_vendor_is_limited_by_its_own_variable() -> None:
    mixed = [gpu("GPU-aa11"), gpu("GPU-cc", vendor="amd"), gpu("apple-gpu-0", vendor="apple")]
    kept = allowed(mixed, {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "0"})
    assert [one.vendor for one in kept] == ["amd", "apple"]
