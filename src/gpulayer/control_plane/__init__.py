"""The plane: what it owns, and the way of a job through it.

    plane          one method per verb, no rule inside
      submission   submit, cancel, retry          registry     who the workers are
      dispatch     the scheduling pass            assignments  acquire, log bytes
      foresight    plan                           reports      heartbeats, starts, ends
      queries      looking                        reconcile    what time does
      housekeeping gc                           access       who may come in, and who not any more
                                                enrolment    how credentials come to be
    election                 which of the planes that share a store schedules
    sessions, envelopes      what is remembered between a worker's words; in memory
    endings, orders, views,  shared by the use cases above, which never import each other
    selection, labels
    ports, settings, wakeups what it needs, its times and limits, who waits for what
    lifecycle/, scheduler/   the rules; pure

    submit -> queued -> place -> scheduled -> acquire -> report started -> running
           -> report ended -> succeeded, failed, cancelled, timed_out, or queued again

Every use case loads, asks a pure rule, applies its changes in one transaction of the store, and
then wakes who waits. The store alone is the truth: a plane that is killed and started again knows
everything but who was heard when, so nothing runs out for one lease. It never runs a job, never
starts a process, has no thread of its own, and never sleeps.
"""
