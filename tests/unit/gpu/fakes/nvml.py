"""As much of NVML as the probe asks, made from its API reference, not recorded."""

# ruff: noqa: N802, N815 - NVML's names

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpulayer.gpu import nvml_child


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeNvml:
    """Two cards, the first joined to a switch, the second lost. Any other question is not
    supported."""

    NVMLError = NvmlError
    nvmlMemory_v2 = 0x02000028
    NVML_NVLINK_MAX_LINKS = 2
    NVML_NVLINK_DEVICE_TYPE_GPU = 0
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230

    def __getattr__(self, name: str) -> Any:
        def unsupported(*arguments: object) -> Any:
            raise NvmlError(nvml_child.NOT_SUPPORTED)

        return unsupported

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"550.54.15"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12040

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index == 1:
            raise NvmlError(nvml_child.GPU_IS_LOST)
        return "card"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return "GPU-1"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetPciInfo(self, handle: str) -> Any:
        return SimpleNamespace(busId=b"00000000:1B:00.0")

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int = 1) -> Any:
        if version != 1:
            raise NvmlError(13)
        return SimpleNamespace(total=85520809984, used=4194304)

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return (9, 0)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=7, usedGpuMemory=None, gpuInstanceId=nvml_child.NO_INSTANCE)]

    def nvmlDeviceGetNvLinkState(self, handle: str, link: int) -> int:
        return 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: str, link: int) -> int:
        return self.NVML_NVLINK_DEVICE_TYPE_SWITCH

    def nvmlDeviceGetRemappedRows(self, handle: str) -> tuple[int, int, int, int]:
        return (0, 1, 1, 0)
