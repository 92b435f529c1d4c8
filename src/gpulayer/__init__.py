"""GPUlayer: run a command, a function or a training job on whatever machine can run it.

    import gpulayer as gl

    @gl.remote(gpus=1)
    def train(lr: float) -> float: ...

    train.remote(0.1)             # a job, waited for
    train.submit(0.1)             # a job
    list(train.map([0.1, 0.01]))  # many
    gl.run(["python", "prepare.py"], check=True)
    gl.launch("train.py", procs_per_node=4)

Names are loaded when they are used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib

from gpulayer._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpulayer.errors import (
        GPULayerError,
        JobCancelledError,
        JobError,
        JobFailedError,
        JobLostError,
        JobTimedOutError,
        NotFoundError,
        PreparationError,
        RefusedError,
        SchedulingError,
        SpecError,
        StorageError,
        UnreachableError,
        UsageError,
    )
    from gpulayer.runtime.reporting import report
    from gpulayer.sdk.async_client import AsyncClient
    from gpulayer.sdk.client import Client, as_completed, gather
    from gpulayer.sdk.connect import connect
    from gpulayer.sdk.executor import Executor
    from gpulayer.sdk.failures import RemoteError
    from gpulayer.sdk.job import Job
    from gpulayer.sdk.remote import RemoteFunction, remote
    from gpulayer.sdk.verbs import env_ls, env_prepare, env_rm, job, launch, plan, run, submit

_ERRORS = (
    "GPULayerError", "JobCancelledError", "JobError", "JobFailedError", "JobLostError",
    "JobTimedOutError", "NotFoundError", "PreparationError", "RefusedError", "SchedulingError",
    "SpecError", "StorageError", "UnreachableError", "UsageError",
)  # fmt: skip

_HOME = {
    **dict.fromkeys(_ERRORS, "gpulayer.errors"),
    "AsyncClient": "gpulayer.sdk.async_client",
    "Client": "gpulayer.sdk.client",
    "Executor": "gpulayer.sdk.executor",
    "Job": "gpulayer.sdk.job",
    "RemoteError": "gpulayer.sdk.failures",
    "RemoteFunction": "gpulayer.sdk.remote",
    "as_completed": "gpulayer.sdk.client",
    "connect": "gpulayer.sdk.connect",
    "env_ls": "gpulayer.sdk.verbs",
    "env_prepare": "gpulayer.sdk.verbs",
    "env_rm": "gpulayer.sdk.verbs",
    "gather": "gpulayer.sdk.client",
    "job": "gpulayer.sdk.verbs",
    "launch": "gpulayer.sdk.verbs",
    "plan": "gpulayer.sdk.verbs",
    "remote": "gpulayer.sdk.remote",
    "report": "gpulayer.runtime.reporting",
    "run": "gpulayer.sdk.verbs",
    "submit": "gpulayer.sdk.verbs",
}

__all__ = [
    "AsyncClient", "Client", "Executor", "GPULayerError", "Job", "JobCancelledError", "JobError",
    "JobFailedError", "JobLostError", "JobTimedOutError", "NotFoundError", "PreparationError",
    "RefusedError", "RemoteError", "RemoteFunction", "SchedulingError", "SpecError",
    "StorageError", "UnreachableError", "UsageError", "__version__", "as_completed", "connect",
    "env_ls", "env_prepare", "env_rm", "gather", "job", "launch", "plan", "remote", "report", "run",
    "submit",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'gpulayer' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
