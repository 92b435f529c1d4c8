"""A plane's figures as text: Prometheus's exposition format 0.0.4.

Written out here: the client library costs a plane 20 ms at its start and holds its figures in
globals, of which an embedded plane has none to give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from gpulayer._version import __version__
from gpulayer.control_plane.meters import Distribution, Measures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Answered = Counter[tuple[str, int]]
"""(route, status) -> requests."""


def text(found: Measures, answered: Mapping[tuple[str, int], int], parked: int) -> str:
    """`parked`: calls that are held on purpose now."""
    return "\n".join([*_lines(found, answered, parked), ""])


def _lines(found: Measures, answered: Mapping[tuple[str, int], int], parked: int) -> Iterator[str]:
    yield from _head("gpulayer_info", "gauge", "The plane's version.")
    yield f'gpulayer_info{{version="{__version__}"}} 1'
    yield from _family("gpulayer_jobs", "Jobs by state.", "state", found.jobs)
    yield from _family("gpulayer_queue_jobs", "Waiting jobs by shape.", "shape", found.queue)
    yield from _family("gpulayer_workers", "Workers by state.", "state", found.workers)
    yield from _head("gpulayer_tasks", "gauge", "Tasks that workers have.")
    yield f"gpulayer_tasks {found.tasks}"
    yield from _head("gpulayer_parked_calls", "gauge", "Calls that wait for news.")
    yield f"gpulayer_parked_calls {parked}"
    yield from _head("gpulayer_commits_total", "counter", "Transactions since the plane began.")
    yield f"gpulayer_commits_total {found.commits}"
    yield from _histogram(
        "gpulayer_dispatch_wait_seconds", "From placeable to placed, by job.", found.waited
    )
    yield from _head("gpulayer_http_requests_total", "counter", "Answers by route and status.")
    for (route, status), n in sorted(answered.items()):
        yield f'gpulayer_http_requests_total{{route="{route}",status="{status}"}} {n}'


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _family(name: str, about: str, label: str, values: Mapping[str, int]) -> Iterator[str]:
    yield from _head(name, "gauge", about)
    for value, n in sorted(values.items()):
        yield f'{name}{{{label}="{value}"}} {n}'


def _histogram(name: str, about: str, found: Distribution) -> Iterator[str]:
    yield from _head(name, "histogram", about)
    for bound, n in zip(found.bounds, found.counts, strict=True):
        yield f'{name}_bucket{{le="{bound:g}"}} {n}'
    yield f'{name}_bucket{{le="+Inf"}} {found.count}'
    yield f"{name}_sum {found.total:.6f}"
    yield f"{name}_count {found.count}"
