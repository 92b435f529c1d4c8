"""A gang on three hosts of a real network: it meets, and a pair that has no way is named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence

import pytest

from tests.support.hosts import Host, network
from tests.support.local_home import SECONDS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None,
        reason="network namespaces need root and iproute2",
    ),
]

LAUNCH = "launch --launcher direct --nodes 3 --cpus 0.1 --strategy spread train.py".split()


@pytest.fixture(scope="module")
def hosts() -> Iterator[Sequence[Host]]:
    """The first one serves, the others work for it; commands are typed on the last."""
    with network(4) as hosts:
        first, *others = hosts
        served = first.begin("serve", "--listen", f"{first.address}:8765", "--no-worker")
        assert served.stdout is not None
        _, login = (served.stdout.readline().decode().split()[-1] for _ in range(2))
        try:
            for number, host in enumerate(others, 1):
                invited = first.gpulayer("invite").stdout.decode().split()[-1]
                host.gpulayer("join", invited, "--name", f"lab-{number}")
            desk = others[-1]
            desk.gpulayer("login", login)
            (desk.home.work / "train.py").write_text(
                "import os; print(os.environ['RANK'], os.environ['MASTER_ADDR'])\n"
            )
            yield hosts
        finally:
            served.kill()
            served.communicate(timeout=SECONDS)


def test_all_three_meet_at_the_firsts_address(hosts: Sequence[Host]) -> None:
    done = hosts[-1].gpulayer(*LAUNCH)
    said = sorted(line.split() for line in done.stdout.decode().splitlines())
    assert [rank for rank, _ in said] == ["0", "1", "2"]
    assert {address for _, address in said} <= {host.address for host in hosts}


def test_a_pair_without_a_way_is_named_in_bounded_time(hosts: Sequence[Host]) -> None:
    """One drops what it would say to the other, so that the other hears nothing."""
    *_, one, other = hosts
    route = ["ip", "-n", other.namespace, "route"]
    subprocess.run([*route, "add", "blackhole", one.address], check=True, timeout=SECONDS)
    try:
        done = other.gpulayer(*LAUNCH, check=125)
    finally:
        subprocess.run([*route, "del", "blackhole", one.address], check=True, timeout=SECONDS)
    found = re.findall(
        r"(lab-\d) \(node \d\) cannot reach (lab-\d) \(node \d\) at ([\d.]+):\d+: ([^;\n]+)",
        done.stderr.decode(),
    )
    assert ("lab-2", "lab-3", other.address, "no answer within 5 s") in found, done
    assert {frozenset(pair[:2]) for pair in found} == {frozenset(("lab-2", "lab-3"))}
