"""The support matrix and the names of devices."""

from __future__ import annotations

import pytest

from gpulayer.gpu.support import (
    MATRIX,
    accelerator_of,
    is_model,
    is_scheduled,
    normalise_model,
    reaches_capability,
)

NAMES = {
    "NVIDIA A100-SXM4-80GB": "a100",
    "NVIDIA A100 80GB PCIe": "a100",
    "A100-PCIE-40GB": "a100",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 NVL": "h100",
    "NVIDIA H200": "h200",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA GB10": "gb10",
    "NVIDIA GeForce RTX 4090": "rtx4090",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "rtx4090-laptop",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "rtx4070tisuper",
    "NVIDIA GeForce GTX 1080 Ti": "gtx1080ti",
    "NVIDIA RTX A6000": "a6000",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000ada",
    "Quadro RTX 6000": "rtx6000",
    "Tesla V100-SXM2-16GB": "v100",
    "Tesla T4": "t4",
    "NVIDIA A10G": "a10g",
    "NVIDIA L40S": "l40s",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb": "a100-1g.5gb",
    "Apple M2": "m2",
    "Apple M3 Max": "m3max",
    "AMD Instinct MI300X": "mi300x",
    "AMD Radeon RX 7900 XTX": "rx7900xtx",
}


@pytest.mark.parametrize(("name", "model"), NAMES.items())
def test_a_device_is_known_by_its_short_name(name: str, model: str) -> None:
    assert normalise_model(name) == model


@pytest.mark.parametrize("model", sorted(set(NAMES.values())))
def test_a_short_name_stays_as_it_is(model: str) -> None:
    assert normalise_model(model) == model


def test_people_may_leave_out_hyphens_and_dots() -> None:
    assert is_model("rtx4090-laptop", "rtx4090laptop")
    assert is_model("rtx4090", "RTX 4090")


def test_a_part_of_a_device_is_not_the_device() -> None:
    assert not is_model("a100-1g.5gb", "a100")
    assert not is_model("rtx4090-laptop", "rtx4090")


def test_rocm_is_known_and_never_scheduled() -> None:
    assert accelerator_of("amd") == "rocm"
    assert not is_scheduled("amd")
    assert not MATRIX["rocm"].scheduled


def test_any_gpu_means_cuda_or_mps_and_never_rocm() -> None:
    assert set(MATRIX["gpu"].vendors) == {"nvidia", "apple"}
    assert is_scheduled("nvidia")
    assert is_scheduled("apple")


def test_a_vendor_that_nobody_knows_is_not_scheduled() -> None:
    assert accelerator_of("acme") is None
    assert not is_scheduled("acme")


@pytest.mark.parametrize(
    ("have", "need", "answer"),
    [
        ("8.0", "8.0", True),
        ("9.0", "8.9", True),
        ("12.0", "9.0", True),
        ("7.5", "8.0", False),
        (None, "8.0", None),
        ("unheard of", "8.0", None),
    ],
)
def test_compute_capability_is_compared_by_number(
    have: str | None, need: str, answer: bool | None
) -> None:
    assert reaches_capability(have, need) is answer
