"""Having jobs accepted, batch by batch, so that no interrupt leaves one that nobody has in hand.

Between a request and its answer a plane may have accepted jobs whose ids are not known here yet.
Their idempotency keys are: asking again with the same ones tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gpulayer.errors import GPULayerError

BATCH_JOBS = 1_000
"""Jobs of one request; longer lists go in several."""

Call = Callable[[str, str, Mapping[str, Any]], Any]
"""Method, path and body; the answer."""


def accepted(
    call: Call, batches: Iterable[Mapping[str, Any]], tell: Callable[[Mapping[str, Any]], object]
) -> list[Mapping[str, Any]]:
    """All jobs of the batches, in order; `tell` hears each answer. Interrupted (Ctrl-C, a signal
    that ends the program), it asks for the end of all of them first; interrupted again, at once
    raises that."""
    jobs: list[Mapping[str, Any]] = []
    asked: Mapping[str, Any] = {}
    try:
        for asked in batches:
            answer = call("POST", "/v1/jobs/batch", asked)
            jobs += answer["jobs"]
            tell(answer)
    except Exception:
        raise
    except BaseException:
        with suppress(GPULayerError, OSError):
            _call_off(call, jobs, asked)
        raise
    return jobs


def cancel(call: Call, ids: Sequence[str]) -> None:
    """Ask for the end of jobs, many in one request."""
    for at in range(0, len(ids), BATCH_JOBS):
        call("POST", "/v1/jobs/cancel", {"jobs": ids[at : at + BATCH_JOBS]})


def _call_off(call: Call, jobs: list[Mapping[str, Any]], asked: Mapping[str, Any]) -> None:
    if asked:
        jobs = [*jobs, *call("POST", "/v1/jobs/batch", asked)["jobs"]]
    cancel(call, list(dict.fromkeys(job["id"] for job in jobs)))
