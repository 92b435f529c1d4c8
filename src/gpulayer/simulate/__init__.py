"""A trace of jobs, replayed through the production scheduler on virtual time.

Owns: traces and fleets from files (`trace`, `fleet`), the virtual clock (`engine`), what decides in
a replay (`production`: the scheduler itself, the very functions that a plane calls; `reference`:
plain FIFO and EASY backfill, written simply, to compare with) and the figures (`report`).

Authoritative: nothing. It reads two files and prints.

Never: asks the world for the time, talks to a plane, or holds a rule of the scheduler.
"""
