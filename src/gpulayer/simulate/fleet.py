"""Fleets from a file: machines that need not exist.

JSON or YAML. Either what `gpulayer workers --json` prints, or `workers: [...]` with, for each kind
of machine, `gpus` (a number) and as needed `count`, `name`, `model`, `gpu_memory_gb`,
`compute_capability`, `cpu_cores`, `memory_gb`, `disk_gb`, `python`, `frameworks`, `labels`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpulayer.contracts.capabilities import GpuDevice, Interpreter, WorkerCapabilities
from gpulayer.contracts.decision import WorkerView
from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.jobfile import load_jobfile
from gpulayer.contracts.problems import spec_error
from gpulayer.contracts.reading import SourceMap
from gpulayer.errors import Problem, UsageError
from gpulayer.gpu.support import normalise_model
from gpulayer.simulate.trace import HINT

MOST = 100_000
"""Machines of a fleet."""
_KINDS = {
    "name": "str",
    "count": "int",
    "gpus": "int",
    "model": "str",
    "gpu_memory_gb": "float",
    "compute_capability": "str",
    "cpu_cores": "float",
    "memory_gb": "float",
    "disk_gb": "float",
    "python": "str",
    "frameworks": "Mapping[str, str]",
    "labels": "Mapping[str, str]",
}


def read_fleet(text: str, filename: str) -> tuple[WorkerView, ...]:
    """Idle workers. A SpecError with the line of what is wrong."""
    found, source = load_jobfile(text, filename)
    workers = found.get("workers")
    views, problems = list[WorkerView](), list[Problem]()
    for number, row in enumerate(workers if isinstance(workers, list) else ()):
        try:
            views += _views(row, number, MOST - len(views))
        except UsageError as error:
            problems.append(_problem(error.message, source, ("workers", number)))
    if not views and not problems:
        problems.append(_problem("workers is not a list of machines", source, ("workers",)))
    twice = {view.worker_id for view in views}
    if len(twice) < len(views):
        problems.append(_problem("two machines have one name", source, ("workers",)))
    if problems:
        raise spec_error(problems, filename, hint=HINT)
    return tuple(views)


def _problem(message: str, source: SourceMap, path: tuple[str | int, ...]) -> Problem:
    return Problem("", message, "", source.line(path), "invalid-file")


def _views(row: Any, number: int, room: int) -> Iterator[WorkerView]:
    if isinstance(row, Mapping) and "capabilities" in row:
        name = str(row.get("name") or f"worker-{number}")
        yield _view(name, WorkerCapabilities.from_json(row["capabilities"]))
        return
    row = fitted("machine", row, _KINDS)
    unknown = sorted(set(row) - set(_KINDS))
    if unknown:
        raise UsageError("usage", f"a machine has no '{unknown[0]}'; it has {', '.join(_KINDS)}")
    count, gpus = row.get("count", 1), row.get("gpus", 0)
    if not 1 <= count <= room or not 0 <= gpus <= 1024:
        raise UsageError("usage", f"count is 1 to {MOST} in all, and gpus 0 to 1024")
    name = row.get("name") or f"machine-{number}"
    digits = len(str(count - 1))
    for n in range(count):
        yield _made(row, name if count == 1 else f"{name}-{n:0{digits}}", gpus)


def _made(row: Mapping[str, Any], name: str, gpus: int) -> WorkerView:
    """Where cores are not said, there are enough for a job on each GPU."""
    model = normalise_model(row.get("model") or "a100")
    devices = tuple(
        GpuDevice(
            uuid=f"GPU-{name}-{index}",
            index=index,
            vendor="nvidia",
            name=model.upper(),
            model=model,
            memory_gb=row.get("gpu_memory_gb"),
            memory_kind="dedicated",
            compute_capability=row.get("compute_capability"),
        )
        for index in range(gpus)
    )
    cores = row.get("cpu_cores", max(16.0, 8.0 * gpus))
    python, frameworks = row.get("python"), row.get("frameworks")
    has_python = python is not None or frameworks is not None
    return _view(
        name,
        WorkerCapabilities(
            name,
            "linux",
            "x86_64",
            cores,
            memory_gb=row.get("memory_gb"),
            disk_gb=row.get("disk_gb"),
            gpus=devices,
            interpreters=(Interpreter("python", python, frameworks),) if has_python else (),
            labels=row.get("labels") or {},
        ),
    )


def _view(name: str, capabilities: WorkerCapabilities) -> WorkerView:
    return WorkerView(WorkerId(name), name, "remote", capabilities)
