"""`gpulayer env prepare`: the jobs of `sdk.environments`, followed and told as they end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gpulayer.cli import render, waiting
from gpulayer.cli.flags import server_for
from gpulayer.cli.outcome import explained
from gpulayer.cli.session import connect_to
from gpulayer.contracts.durations import duration_text
from gpulayer.errors import GPULayerError
from gpulayer.sdk import environments
from gpulayer.sdk.environments import COMMAND, OPTIONS, Preparation

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.servers import Elsewhere

FIRST_SECONDS, AGAIN_SECONDS = 3.0, 10.0
AT_ONCE = 64
"""Workers that are followed at one time."""
INTERRUPTED = 130
SHOWN = 5
"""Workers that are named in one line."""


def prepare(words: Sequence[str], flags: Mapping[str, Any], *, as_json: bool, quiet: bool) -> int:
    """0 when it is there on every worker that matches; 1 if not, also where one is away."""
    server = server_for({**flags, "target": None})
    said = {name: flags[name] for name in OPTIONS} | {"data": list(flags["data"])}
    spec = environments.described(words, said, flags["prepare_timeout"], is_far=server is not None)
    with ExitStack() as stack:
        origin, envelope = _world(server, stack)
        wire = connect_to(server)
        begun = environments.begin(wire, spec, origin, envelope, is_far=server is not None)
        told = [*begun.documents, *_followed(wire, begun, is_talking=not quiet)]
    if as_json:
        render.json_document({"workers": told})
    elif not quiet:
        for one in told:
            if one["state"] in ("away", "busy"):
                render.say(render.plain(f"{one['worker']}: not prepared: {one['why']}"))
    if any(one["state"] == "cancelled" for one in told):
        return INTERRUPTED
    return int(any(one["state"] != "ready" for one in told))


def _world(server: Elsewhere | None, stack: ExitStack) -> tuple[dict[str, Any], str | None]:
    """The origin, and of a terminal here the envelope, which is kept until the jobs are known."""
    if server is not None:
        from gpulayer.sdk.far import far_origin

        return far_origin(COMMAND), None
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_of
    from gpulayer.sdk.places import Places

    connect_to(None)
    seen = world.of_terminal(list(COMMAND))
    stack.callback(seen.close)
    return origin_of(seen, list(COMMAND)), stack.enter_context(world.given(Places.find(), seen))


def _followed(wire: Wire, begun: Preparation, *, is_talking: bool) -> list[dict[str, Any]]:
    """What came of each, told as it comes. Ctrl-C ends them all."""
    open_ = dict(begun.workers)
    if not open_:
        return []

    def follow(job_id: str) -> dict[str, Any]:
        mine = wire.aside()
        try:
            job, gave_up = begun.wait(mine.call, job_id)
            is_well = job["state"] in ("succeeded", "cancelled")
            error = None if is_well else explained(mine, job)
        finally:
            mine.close()
        told = environments.document(open_.pop(job_id), job, error, gave_up)
        if is_talking and not gave_up:
            _say(told, error)
        return told

    def text() -> str:
        aside = wire.aside()
        try:
            return standing(open_.copy(), begun.queued(aside.call))
        except GPULayerError:
            return standing(open_.copy(), {})
        finally:
            aside.close()

    pause = FIRST_SECONDS if is_talking else None
    pool = ThreadPoolExecutor(min(AT_ONCE, len(open_)), "gpulayer-prepare")
    with waiting.told_while(text, pause, AGAIN_SECONDS):
        try:
            futures = [pool.submit(follow, job) for job in begun.workers]
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            begun.cancel(wire.call)
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=False)


def standing(open_: Mapping[str, str], queued: Mapping[str, str]) -> str:
    """One line: who prepares it, who waits for room and why."""
    builds = _some(worker for job, worker in open_.items() if job not in queued)
    waits = [job for job in open_ if job in queued]
    said = [f"preparing on {builds}"] if builds else []
    if waits:
        why = render.plain(queued[waits[0]])
        said.append(f"{_some(open_[job] for job in waits)} waits for room: {why}")
    return "; ".join(said) or "ending"


def _some(names: Iterable[str]) -> str:
    known = sorted(names)
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return ", ".join(known[:SHOWN]) + more


def _say(told: Mapping[str, Any], error: GPULayerError | None) -> None:
    if error is not None:
        render.error(error)
        return
    how = told["state"]
    if how == "ready":
        how = f"ready in {duration_text(told['seconds'] or 0.0)} ({told['note']})"
    render.say(render.plain(f"{told['worker']}: {how}"))
