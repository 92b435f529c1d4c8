"""Traces: who came when, with how many GPUs, and how long it ran.

A CSV file with a header: `job_id`, `submission_time` and `duration` in seconds, `num_gpu`; in any
order, other columns are let be. `time_limit`, where there is one, is what the job promised.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass

from gpulayer.contracts.problems import spec_error
from gpulayer.errors import Problem

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")
HINT = "gpulayer simulate --help"
"""What a trace and a fleet look like."""
_MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One row."""

    name: str
    at: float
    """Seconds since the trace began."""
    seconds: float
    """How long it runs."""
    gpus: int
    limit: float | None
    """Seconds after which it would be ended; what a scheduler may know. None: it has no limit."""


def read_trace(text: str, filename: str, limits: float | None = 1.0) -> list[TraceJob]:
    """The jobs in the order in which they came. `limits`: a job without `time_limit` promises so
    many times what it runs; None: nothing. A SpecError with every line that is wrong."""
    rows = csv.DictReader(text.splitlines())
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        message = f"the first line names no column {' or '.join(missing)}"
        mend = f"begin it with {','.join(COLUMNS)}"
        raise spec_error([Problem("", message, mend, 1, "invalid-file")], filename, hint=HINT)
    jobs, problems = list[TraceJob](), list[Problem]()
    for row in rows:
        try:
            jobs.append(_job(row, limits))
        except ValueError as error:
            problems.append(Problem("", str(error), "", rows.line_num, "invalid-file"))
    if not jobs and not problems:
        problems.append(Problem("", "the trace has no job", "", 1, "invalid-file"))
    if problems:
        raise spec_error(problems, filename, hint=HINT)
    return sorted(jobs, key=lambda job: job.at)


def _job(row: Mapping[str, str | None], limits: float | None) -> TraceJob:
    seconds = _seconds(row, "duration")
    limit = None if limits is None else seconds * limits
    if row.get("time_limit"):
        limit = _seconds(row, "time_limit")
        seconds = min(seconds, limit)
    gpus = row["num_gpu"] or ""
    if not (gpus.isascii() and gpus.isdigit() and int(gpus[:9]) <= _MOST_GPUS):
        raise ValueError(f"num_gpu is '{gpus}', not a number of GPUs")
    return TraceJob(
        row["job_id"] or "", _seconds(row, "submission_time"), seconds, int(gpus), limit
    )


def _seconds(row: Mapping[str, str | None], name: str) -> float:
    text = row[name] or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e12:
        raise ValueError(f"{name} is '{text}', not a number of seconds")
    return value
