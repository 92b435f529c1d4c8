"""Asks NVML for everything at once and prints one line of JSON. Run by path, in a child process.

NVML is never loaded into the agent: its first call starts the driver, can hang, and spoils later
forks. This file imports nothing of GPUlayer. What a driver does not know is null; a fault is one
of the codes of `nvidia_cards.FAULTS`. Names are those of NVIDIA's NVML API reference.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

NOT_SUPPORTED, GPU_IS_LOST, RESET_REQUIRED, UNKNOWN = 3, 15, 16, 999
NO_INSTANCE = 0xFFFFFFFF
RECOVERY = {1: ["reset"], 2: ["reboot"], 4: ["reset"], 6: ["reset"], 7: ["reboot"]}
"""NVML_GPU_RECOVERY_ACTION_*; 3 and 5 concern peers, not the card."""


def main() -> None:
    sys.stdout.write(json.dumps(answer()) + "\n")


def answer() -> dict[str, Any]:
    """What this process's NVML says, or `{"error": code, "text": ...}`."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError as error:
        return {"error": 12, "text": str(error)}
    try:
        pynvml.nvmlInit()
        return read(pynvml)
    except pynvml.NVMLError as error:
        return {"error": int(getattr(error, "value", UNKNOWN)), "text": str(error)}


def read(nvml: Any) -> dict[str, Any]:
    """All cards that answer, and which ones do not."""
    cuda = _try(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)[0]
    cards: list[dict[str, Any]] = []
    silent: list[dict[str, Any]] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            cards.append(_card(nvml, index, handle))
        except nvml.NVMLError as error:
            silent.append({"index": index, "text": str(error)})
    return {
        "driver": _text(nvml.nvmlSystemGetDriverVersion()),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        "cards": cards,
        "silent": silent,
    }


def _card(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    faults: list[str] = []
    memory, used, why = _memory(nvml, handle)
    utilization, also = _try(nvml, nvml.nvmlDeviceGetUtilizationRates, handle)
    for code in (why, also):
        if code in (GPU_IS_LOST, UNKNOWN):
            faults.append("lost")
        elif code == RESET_REQUIRED:
            faults.append("reset")
    capability = _try(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)[0]
    mig = _try(nvml, nvml.nvmlDeviceGetMigMode, handle)[0]
    partitioned = bool(mig and mig[0])
    return {
        "index": index,
        "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
        "bus": _text(nvml.nvmlDeviceGetPciInfo(handle).busId),
        "name": _text(nvml.nvmlDeviceGetName(handle)),
        "memory": memory,
        "used": used,
        "shared": why == NOT_SUPPORTED,
        "utilization": utilization.gpu / 100 if utilization else None,
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "partitioned": partitioned,
        "slices": _slices(nvml, handle) if partitioned else [],
        "processes": _processes(nvml, handle),
        "links": [] if partitioned else _links(nvml, handle),
        "faults": sorted({*faults, *_faults(nvml, handle)}),
    }


def _slices(nvml: Any, parent: Any) -> list[dict[str, Any]]:
    """The MIG instances: each is a device of its own."""
    found = []
    for index in range(_try(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, parent)[0] or 0):
        handle = _try(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, index)[0]
        if handle is None:
            continue
        memory, used, _ = _memory(nvml, handle)
        profile = re.search(r"MIG (\S+)", _text(nvml.nvmlDeviceGetName(handle)))
        found.append(
            {
                "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
                "profile": profile.group(1) if profile else "",
                "instance": nvml.nvmlDeviceGetGpuInstanceId(handle),
                "memory": memory,
                "used": used,
            }
        )
    return found


def _processes(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    """Processes that compute; those that only draw (a desktop) do not hold a GPU."""
    found = []
    for process in _try(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle)[0] or []:
        instance = getattr(process, "gpuInstanceId", NO_INSTANCE)
        found.append(
            {
                "pid": process.pid,
                "memory": process.usedGpuMemory,
                "instance": None if instance in (None, NO_INSTANCE) else instance,
            }
        )
    return found


def _links(nvml: Any, handle: Any) -> list[str]:
    """The far ends of the active NVLinks: bus addresses, or `switch`."""
    ends = set()
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        active, code = _try(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link)
        if code:
            break
        if not active:
            continue
        kind = _try(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)[0]
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends.add("switch")
        elif kind == nvml.NVML_NVLINK_DEVICE_TYPE_GPU:
            far = _try(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)[0]
            if far is not None:
                ends.add(_text(far.busId))
    return sorted(ends)


def _faults(nvml: Any, handle: Any) -> list[str]:
    faults = []
    wanted = nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    fields = _try(nvml, nvml.nvmlDeviceGetFieldValues, handle, [wanted])[0]
    if fields and fields[0].nvmlReturn == 0:
        faults += RECOVERY.get(fields[0].value.uiVal, [])
    errors = _try(
        nvml,
        nvml.nvmlDeviceGetTotalEccErrors,
        handle,
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        nvml.NVML_VOLATILE_ECC,
    )[0]
    if errors:
        faults.append("ecc")
    rows = _try(nvml, nvml.nvmlDeviceGetRemappedRows, handle)[0]
    if rows:
        _, _, pending, failed = rows
        faults += ["remap-failed"] if failed else ["remap-pending"] if pending else []
    if _try(nvml, nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)[0]:
        faults.append("retire-pending")
    return faults


def _memory(nvml: Any, handle: Any) -> tuple[int | None, int | None, int]:
    """(total, used, error). The second version leaves what the driver reserves out of `used`."""
    info, code = _try(nvml, nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    if code:
        info, code = _try(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    if code or not info.total:
        return None, None, code or NOT_SUPPORTED
    return int(info.total), int(info.used), 0


def _try(nvml: Any, function: Any, *arguments: Any) -> tuple[Any, int]:
    try:
        return function(*arguments), 0
    except nvml.NVMLError as error:
        return None, int(getattr(error, "value", UNKNOWN))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


if __name__ == "__main__":
    main()
