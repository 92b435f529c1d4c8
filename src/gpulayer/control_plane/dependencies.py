"""Jobs that come after others: what they wait for when they are submitted, and its end.

A held job is queued for the reason `dependency`, and no pass sees it. The pass behind the end of a
job, in the same commit, lets go of those that waited for it, before it looks at the queue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.ids import JobId
from gpulayer.contracts.records import Job
from gpulayer.contracts.states import TERMINAL_JOB_STATES, JobState, Reason
from gpulayer.control_plane import elements
from gpulayer.control_plane.lifecycle import dependencies as rules
from gpulayer.control_plane.ports import Reader, Tx, commit
from gpulayer.control_plane.selection import find_job
from gpulayer.control_plane.wakeups import ANY_JOB, job_topic
from gpulayer.errors import RefusedError

Awaited = dict[JobId, bool]
"""What a job waits for, and whether it must succeed."""


def held(reader: Reader, job: Job) -> tuple[Job, Awaited]:
    """The new job with the ids of what it comes after, and what of that has not ended. Refused
    where one has ended badly, and where one is not known."""
    after, awaited = list[Mapping[str, Any]](), Awaited()
    for wish in job.spec["after"]:
        on = find_job(reader, wish["job"], job.origin.get("session"))
        must = wish.get("when", "ok") == "ok"
        after.append({**wish, "job": on.id})
        if on.state not in TERMINAL_JOB_STATES:
            awaited[on.id] = awaited.get(on.id, False) or must
        elif not rules.is_met(on.state, must):
            raise RefusedError(
                "dependency-failed",
                rules.unmet(on.id, on.state),
                job_id=on.id,
                why=f"so it would never begin; --after {on.id}:any waits for the end alone",
                hint=f"gpulayer retry {on.id}",
            )
    job = dataclasses.replace(job, spec={**job.spec, "after": after})
    if awaited:
        told = rules.waits_for(sorted(awaited))
        job = dataclasses.replace(job, reason=Reason.DEPENDENCY, message=told)
    return job, awaited


def settle(tx: Tx, now: float) -> frozenset[str]:
    """Let go of what waited for jobs that have ended, and end what waited in vain; with what waited
    for that in turn. Topics of whom it concerns."""
    topics = set[str]()
    while ends := tx.awaited_ends():
        for on_job, state in ends:
            waiting = tx.waiting_on(on_job)
            tx.forget_awaited(on_job)
            for job_id, must in waiting:
                job = tx.job(job_id)
                if job is None or job.state is not JobState.QUEUED:
                    continue
                if rules.is_met(state, must):
                    commit(tx, rules.went_on(job, on_job, tx.awaits(job_id), now))
                else:
                    commit(tx, elements.refused(tx, job, rules.unmet(on_job, state), now))
                topics |= {job_topic(job_id), ANY_JOB}
    return frozenset(topics)
