"""What a stream into a running job is, what may be asked for, and the words about it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpulayer.contracts import limits
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.messages import StreamOrder
from gpulayer.contracts.principals import Principal, Role
from gpulayer.contracts.records import Job
from gpulayer.errors import GPULayerError, RefusedError, UnreachableError, UsageError

MEET_SECONDS = 20.0
"""How long one side waits for the other."""
TOLD_CHARACTERS = 2_000
"""Of a command's words, in the record."""
EXEC, FORWARD, CONNECT, STACKS = "exec", "forward", "connect", "stacks"


@dataclass(frozen=True, slots=True)
class Wish:
    kind: str
    """`exec`: a command. `forward`: that ports will be asked for, until the job ends. `connect`:
    one connection of a `forward`. `stacks`: what the job's processes are at, as JSON."""
    argv: tuple[str, ...] = ()
    """None: the user's shell."""
    node: int = 0
    port: int = 0
    forward: str = ""
    """Of a `connect`: the stream that it belongs to."""
    terminal: Mapping[str, Any] | None = None
    set: Mapping[str, str] | None = None


@dataclass(slots=True)
class Stream:
    id: str
    order: StreamOrder
    worker_id: WorkerId
    principal: Principal
    wish: Wish
    opened: float
    """Monotonic."""
    is_handed: bool = False
    """Its worker has come for it, or nobody waits for that any more."""
    started: float | None = None
    told: bool = False
    """Its end is in the record."""


def require_sane(wish: Wish) -> None:
    if wish.kind not in (EXEC, FORWARD, CONNECT, STACKS):
        raise UsageError("usage", f"there is no stream of the kind {wish.kind!r}")
    size = sum(len(word.encode(errors="surrogateescape")) + 1 for word in wish.argv)
    if size > limits.EXEC_BYTES:
        raise RefusedError(
            "too-large",
            f"the command is of {size} bytes",
            why=f"one that goes into a running job has at most {limits.EXEC_BYTES}",
            hint="gpulayer exec JOB -- sh < script.sh",
        )
    if any("\0" in word for word in (*wish.argv, *(wish.set or {}).values())):
        raise UsageError("usage", "a word of the command has a zero byte in it")
    if set(wish.set or {}) - {"TERM", "COLORTERM"}:
        raise UsageError("usage", "the environment of such a command is the job's")
    if wish.kind in (FORWARD, CONNECT) and not 0 < wish.port < 65_536:
        raise UsageError("usage", f"{wish.port} is no port", why="ports are 1 to 65535")


def can_enter(job: Job, wish: Wish, worker: WorkerCapabilities) -> bool:
    """Whether the worker is new enough. An older one would run a command beside the container of a
    job in an image, in the world of its engine."""
    if wish.kind == STACKS:
        return worker.stacks
    if wish.kind == EXEC and job.spec.get("image"):
        return worker.streams and worker.enters_images
    return worker.streams


def is_part(stream: Stream, forward: Stream) -> bool:
    wish, of = stream.wish, forward.wish
    same = (wish.node, wish.port) == (of.node, of.port)
    is_same_job = stream.order.job_id == forward.order.job_id
    return of.kind == FORWARD and same and is_same_job and stream.principal == forward.principal


def visitor_name(principal: Principal) -> str:
    if principal.role is Role.LOCAL:
        return "this machine's user"
    return principal.name or principal.owner or principal.credential_id


def said_of(wish: Wish, words: Sequence[str]) -> str:
    if wish.kind == FORWARD:
        return f"forwards port {wish.port}"
    if wish.kind == STACKS:
        return "looks at the stacks"
    line = shlex.join(kept_words(words)) or "a shell"
    return line if len(line) <= TOLD_CHARACTERS else line[:TOLD_CHARACTERS] + "..."


def kept_words(words: Sequence[str]) -> list[str]:
    """As many as the record has room for."""
    kept: list[str] = []
    left = TOLD_CHARACTERS
    for word in words:
        if len(word) > left:
            return [*kept, word[:left] + "..."]
        left -= len(word)
        kept.append(word)
    return kept


def not_running(job: Job, what: str, why: str, hint: str) -> GPULayerError:
    return RefusedError("job-not-running", what, why=why, hint=hint, job_id=job.id)


def unreachable(job: Job, what: str, why: str) -> GPULayerError:
    hint = "gpulayer workers"
    return UnreachableError("worker-unreachable", what, why=why, hint=hint, job_id=job.id)


def too_many(what: str, most: int) -> GPULayerError:
    return RefusedError(
        "too-many-streams",
        f"{what} has {most} streams already",
        why="each command inside a job, and each forwarded connection, is one",
        hint="gpulayer help too-many-streams",
    )
