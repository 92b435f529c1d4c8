"""What the processes of a running job are at: their Python stacks, alike ones together.

told = stacks(wire, job)          # by way of each node's worker
for group in groups(told): ...    # the most first, so that the odd one comes last
"""

from __future__ import annotations

import json
import select
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpulayer.api.paths import job_path
from gpulayer.clock import SystemIds
from gpulayer.errors import RefusedError, UnreachableError
from gpulayer.runtime import frames

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire

_SECONDS = 60.0
_MOST_BYTES = 64 << 20


@dataclass
class Group:
    """Processes whose main threads stand at the same place."""

    frames: list[list[Any]]
    processes: list[Mapping[str, Any]] = field(default_factory=list)


def stacks(wire: Wire, selector: str) -> list[dict[str, Any]]:
    """The processes of all nodes: {node, worker, pid, rank, is_rank, command, source, why,
    threads}; see `runtime.stacks`. Raises `job-not-running`, `worker-unreachable`, ..."""
    job = wire.call("GET", job_path(selector))
    return [
        {"node": node, **told}
        for node in range(max(1, len(job.get("nodes") or ())))
        for told in _of_node(wire, str(job["id"]), node)
    ]


def groups(told: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Those with a stack, the largest group first."""
    found: dict[str, Group] = {}
    for process in sorted(told, key=lambda p: (p["rank"] or 0, p["pid"])):
        main = next((t for t in process["threads"] if t["is_main"]), None)
        if main is not None:
            key = json.dumps([process["is_rank"], main["frames"]])
            found.setdefault(key, Group(main["frames"])).processes.append(process)
    return sorted(found.values(), key=lambda group: -len(group.processes))


def _of_node(wire: Wire, job: str, node: int) -> list[dict[str, Any]]:
    wish = {"stream": SystemIds().token(26), "kind": "stacks", "node": node}
    about = wire.call("POST", job_path(job, "streams"), wish)
    way = wire.stream(f"/v1/streams/{about['stream']}")
    said: dict[str, bytes] = {frames.STDOUT: b"", frames.STDERR: b""}
    ended: dict[str, Any] | None = None
    try:
        way.send(frames.INPUT, b"")
        while ended is None:
            way.flush()
            poll = select.poll()
            poll.register(way.fileno(), way.events)
            if not way.is_pending and not poll.poll(_SECONDS * 1000):
                raise EOFError("no answer")
            for kind, payload in way.receive():
                if kind in said:
                    said[kind] += payload
                elif kind == frames.JSON and payload.get("event") == "ended":
                    ended = payload
                elif kind == frames.JSON and payload.get("event") == "lost":
                    raise EOFError(str(payload.get("message", "")))
            if (way.has_ended and ended is None) or len(said[frames.STDOUT]) > _MOST_BYTES:
                raise EOFError("the plane ended it")
        found = json.loads(said[frames.STDOUT])["processes"] if not ended.get("refused") else None
    except (EOFError, ValueError) as error:
        why = said[frames.STDERR].decode("utf-8", "replace").strip()[-500:] or str(error)
        raise UnreachableError(
            "worker-unreachable", f"the stacks of {job} did not come", why=why,
            hint=f"gpulayer status {job}", job_id=job,
        ) from error  # fmt: skip
    finally:
        way.close()
    if found is None:
        raise RefusedError(
            "job-not-running", f"the stacks of {job} did not come",
            why=str(ended.get("message", "")), hint=f"gpulayer status {job}", job_id=job,
        )  # fmt: skip
    return [{"worker": about["worker"], **process} for process in found]
