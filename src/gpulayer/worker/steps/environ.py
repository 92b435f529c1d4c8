"""The environment of a job.

A job here gets its terminal's, whole, with few changes. Any other gets the names of an allow-list
from the worker, so that no token or loader variable of the worker reaches it by chance.
"""

from __future__ import annotations

from gpulayer.worker.steps import plan
from gpulayer.worker.steps.plan import TaskPlan

ALLOWED = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TERM XDG_CACHE_HOME XDG_RUNTIME_DIR "
    "SSL_CERT_FILE SSL_CERT_DIR CUDA_HOME CUDA_PATH SYSTEMROOT".split()
)
ALLOWED_PREFIX = "LC_"


def fill(task: TaskPlan) -> None:
    """Set what every job is told, then the job's own variables."""
    if not task.here:
        task.whole = {
            name: value
            for name, value in task.environ.items()
            if name in ALLOWED or name.startswith(ALLOWED_PREFIX)
        }
    task.set.update(
        GPULAYER_JOB_ID=task.assignment.job_id,
        GPULAYER_ATTEMPT=str(task.assignment.attempt),
        GPULAYER_INPUT_DIR=plan.inputs(task.folder),
        GPULAYER_OUTPUT_DIR=plan.outputs(task.folder),
        GPULAYER_METRICS_FILE=plan.metrics_file(task.folder),
        GPULAYER_WORKSPACE=task.folder if task.in_place else plan.workspace(task.folder),
    )
    task.set.update(task.spec.get("env") or {})
