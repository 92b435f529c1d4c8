"""Who runs where, and why: a pure function from a snapshot to explained decisions.

Owns: what the scheduler looks at in a job (`shapes`), the facts of workers during a pass (`views`),
every reason for or against a worker (`checks`, and `devices` for GPUs), who comes first
(`ranking`, `topology`), one pass (`place` over the `heads` of the queue, with `columns` for the
comparisons and `gang` for taking workers all or none), what is kept for the first that
waits (`reserve`), what is sent along before there is room (`ahead`), the words (`explain`) and
records that can be run again (`replay`).

Authoritative: the snapshot. Nothing here knows the store, the clock or chance; the same snapshot
gives the same decisions, to the byte, whatever the order of its queue and workers.

Never: starts anything, writes anything, keeps anything between two passes, or words a reason in a
second place. What is not known makes a job wait; it never makes it fail.

A new reason: one function and one row in `checks.RULES` (for devices, one stage in `devices`).
"""
