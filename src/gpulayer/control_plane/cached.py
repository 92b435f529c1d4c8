"""Which job has the result of a call already, whole."""

from __future__ import annotations

from gpulayer.contracts.records import Job
from gpulayer.contracts.states import JobState
from gpulayer.control_plane.lifecycle.jobs import log_removal
from gpulayer.control_plane.ports import Ports


def recorded(ports: Ports, call: str | None) -> Job | None:
    """The newest that succeeded and of which everything is still here: its outputs, which stay for
    a while from now on, and its log. None: the call is to be made."""
    if call is None:
        return None
    with ports.store.read() as reader:
        job = reader.job_by_call(call)
        if job is None or log_removal(reader.events(job.id)) is not None:
            return None
        outputs = reader.outputs(job.id)
    return job if all(ports.artifacts.touch(one.digest) for one in outputs) else None


def is_recorded(job: Job) -> bool:
    """Of a job that a submission was answered with: whether it had run before."""
    return job.call_key is not None and job.state is JobState.SUCCEEDED
