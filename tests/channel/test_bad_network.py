"""What a worker and its plane hold to over any channel, however bad the network between them.

A real worker with a real supervisor runs real commands; the proxy strikes at its requests.
Whatever it does: no assignment runs twice, no log byte is lost or doubled, each end is recorded
once, and nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpulayer.api.direct_channel import DirectChannel
from gpulayer.api.worker_channel import HttpChannel
from tests.support.bad_proxy import BadProxy, Fate
from tests.support.served_plane import ServedPlane
from tests.support.site import Site
from tests.support.supervisor import SupervisorHome

JOBS = 10
BROKEN = tuple(fate for fate in Fate if fate is not Fate.PASS)
BRISK = {"report_seconds": 0.2, "redeliver_seconds": 0.2, "tick_seconds": 0.2}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "plane").mkdir()
    plane = ServedPlane(tmp_path / "plane", **BRISK)
    with SupervisorHome(tmp_path) as home:
        site = Site(plane, home, tmp_path)
        try:
            yield site
        finally:
            site.close()
            plane.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _jobs(site: Site, count: int = JOBS) -> dict[str, int]:
    """Short ones, whose log goes with their end, and long ones, whose log is shipped."""
    return {site.submit(lines): lines for lines in (10, 20_000, 1, 60_000, 200)[:count] * 2}


def test_in_process(site: Site) -> None:
    site.begin(DirectChannel(site.plane.plane, site.plane.artifacts))
    site.hold(_jobs(site))


@pytest.mark.parametrize("fates", [(), *((fate,) for fate in BROKEN), BROKEN], ids="+".join)
def test_over_a_bad_network(site: Site, stack: ExitStack, fates: tuple[Fate, ...]) -> None:
    proxy = stack.enter_context(BadProxy(site.plane.serve_tcp(), fates))
    site.begin(HttpChannel.over(proxy.path))
    site.hold(_jobs(site))
    assert not fates or any(proxy.met[fate] for fate in fates), "the proxy did nothing"


@pytest.mark.parametrize("seed", range(3))
def test_over_a_network_in_which_little_arrives(site: Site, stack: ExitStack, seed: int) -> None:
    proxy = BadProxy(site.plane.serve_tcp(), BROKEN, seed, rate=0.7)
    site.begin(HttpChannel.over(stack.enter_context(proxy).path))
    site.hold(_jobs(site, 3))
