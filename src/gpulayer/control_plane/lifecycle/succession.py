"""Which of two machines that say the same name is the worker. Pure.

A name and its credential may be on two machines: a disk was copied, a backup restored. The newer
one is to be the worker; the older one is sent away at its next word and ends what it runs. The
newer one comes in when the older one can run nothing any more that may be given out again: one
lease after its last word.

    works - another registers: gives way (`heir`) - its lease is over: followed (`replaced`)

Machines are told apart by their places (`Register.place`): of two agents of one place the earlier
one is dead. One that names no place is at a place of its own each time.
"""

from __future__ import annotations

import dataclasses

from gpulayer.contracts.messages import Register
from gpulayer.contracts.records import Worker
from gpulayer.errors import RefusedError

REMEMBERED = 8
"""Places that a worker was followed at."""


def is_same_machine(known: Worker, message: Register) -> bool:
    return known.nonce == message.nonce or (known.place != "" and known.place == message.place)


def is_followed(known: Worker, message: Register) -> bool:
    """Whether a newer one than who registers has come in, or waits to."""
    gives_way = known.heir != "" and is_same_machine(known, message)
    return gives_way or message.place in known.replaced


def comes_in(known: Worker, message: Register, silent: float, lease: float) -> bool:
    """`silent`: seconds since the known worker's last word."""
    if is_followed(known, message):
        return False
    return is_same_machine(known, message) or silent >= lease


def announced(known: Worker, message: Register) -> Worker:
    """The worker while one that may not come in yet waits for its lease to end."""
    if known.heir or is_followed(known, message):
        return known
    return dataclasses.replace(known, heir=message.place or message.nonce)


def places_behind(known: Worker, message: Register) -> tuple[str, ...]:
    """Those that nobody works from any more, once this one has come in."""
    if is_same_machine(known, message) or not known.place:
        return known.replaced
    return (*known.replaced, known.place)[-REMEMBERED:]


def refusal(known: Worker, message: Register) -> RefusedError:
    """What one that may not come in is told."""
    if is_followed(known, message):
        return RefusedError(
            "worker-replaced",
            f"this machine is no more the worker {known.name!r}",
            why="another machine works by its name and credential: a disk was copied, or a backup "
            "restored. Of two the newer one stays; this one may join by a line of its own",
            hint="gpulayer invite",
        )
    return RefusedError(
        "name-taken",
        f"another machine works as {known.name!r}, with the same credential",
        why="it was told to end; this one begins once its lease is over",
        hint="gpulayer workers",
    )
