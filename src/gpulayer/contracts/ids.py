"""One type per kind of id, so that a worker's id is never passed where a job's is meant."""

from __future__ import annotations

from typing import NewType

JobId = NewType("JobId", str)
"""`<name>-<8 characters>`, such as `train-7f3ak2mq`."""

TaskId = NewType("TaskId", str)
"""`t<fence>`: a task is one assignment, so its fence names it."""

WorkerId = NewType("WorkerId", str)
LOCAL_WORKER = WorkerId("local")
"""The worker on the plane's own machine; one that joined is called by its name."""

EnvelopeId = NewType("EnvelopeId", str)
"""SHA-256 (hex) of a submission's envelope; see `runtime.supervisor`."""

ShapeId = NewType("ShapeId", str)
"""Digest of what the scheduler looks at in a job; equal shapes are judged once."""

Fence = NewType("Fence", int)
"""A number that one assignment carries, unique for ever on one plane."""

Digest = NewType("Digest", str)
"""64 lower-case hex digits of SHA-256."""

PREPARES = "env-prepare"
"""The session of jobs that only prepare an environment. They are no work of anybody's: once they
have ended, they are left out of the list of all jobs, and are never `last`."""
