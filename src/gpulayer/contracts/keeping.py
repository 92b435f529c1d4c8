"""How much is kept, and how long: every limit of what stays on a disk by itself, in one table.

The module is the table, as in `limits`: a constant is a row, its docstring says what is counted.
Plane and workers remove what is past it by themselves; `gpulayer gc` does so at once.
"""

from __future__ import annotations

from typing import Final

# --- a plane --------------------------------------------------------------------------------
TIDY_SECONDS: Final = 3_600.0
"""How often a plane or a worker that runs removes what is past these limits."""

HISTORY_JOBS: Final = 100_000
"""Ended jobs that are listed, with their results, logs and outputs: the newest of them."""

HISTORY_SECONDS: Final = 30 * 86_400.0
"""How long an ended job is listed."""

LOGS_BYTES: Final = 20 << 30
"""Logs of all jobs together. Past it those of the jobs that ended first go, and `logs` says so."""

UNNAMED_SECONDS: Final = 7 * 86_400.0
"""How long an artifact stays that no listed job names, for a job to come."""

UPLOAD_SECONDS: Final = 3_600.0
"""The same where `gc` is called or its job has just gone, and for what a broken upload left:
whoever put it, or was told that it is here, is about to name it."""

CHECKPOINTS: Final = 2
"""Checkpoints of a job: the newest of them."""

CHECKPOINT_SECONDS: Final = 7 * 86_400.0
"""How long those of an ended job stay; of one that succeeded they go at once."""

DAMAGED_SECONDS: Final = 30 * 86_400.0
"""How long an artifact that was found damaged is kept for a look."""

AUDIT_SECONDS: Final = 365 * 86_400.0
"""How long what was noted about credentials is kept."""

# --- a worker -------------------------------------------------------------------------------
WORKSPACE_SECONDS: Final = 86_400.0
"""How long what a task wrote into its workspace stays for whoever looks for it."""

WORKSPACE_BYTES: Final = 20 << 30
"""What stays of all of them. Past it those of the tasks that ended first go."""

WORKSPACE_DISK_PART: Final = 0.1
"""The same as a part of the disk, where that is less."""

CACHE_BYTES: Final = 20 << 30
"""Fetched artifacts, source bundles among them. Past it the least recently used go."""

CACHE_DISK_PART: Final = 0.1
"""The same as a part of the disk, where that is less."""

CACHE_SECONDS: Final = 30 * 86_400.0
"""How long a fetched artifact stays that no task uses."""

ENVIRONMENT_BYTES: Final = 50 << 30
"""Environments of jobs that name requirements. Past it the least recently used go, never one that
a task uses."""

ENVIRONMENT_DISK_PART: Final = 0.2
"""The same as a part of the disk, where that is less."""

IMAGE_BYTES: Final = 100 << 30
"""Container images that were pulled for jobs. Past it the least recently used go, never one that a
task uses, and never one that was there before."""

IMAGE_DISK_PART: Final = 0.2
"""The same as a part of the disk, where that is less."""
