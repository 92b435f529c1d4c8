"""A job that the kernel ended for want of memory says so; one that somebody else killed does not.

The limit is a real one, on the group that supervisor and jobs are in, as in a container.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.faults import NEEDS_ROOT, small_memory
from tests.support.supervisor import SupervisorHome

pytestmark = [pytest.mark.e2e, NEEDS_ROOT]

GREEDY = [sys.executable, "-c", "print('begins', flush=True); print(len(b'x' * 900_000_000))"]


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with small_memory(100) as group, SupervisorHome(tmp_path, containment=request.param) as home:
        home.stop()
        home.start(preexec_fn=lambda: group.write_text(str(os.getpid())))
        yield home
        home.stop()


@pytest.mark.parametrize(
    "words", [GREEDY, ["sh", "-c", '"$@"; exit $?', "sh", *GREEDY]], ids=["itself", "its child"]
)
def test_memory_is_the_reason_where_the_kernel_counted_it(home, words):
    ended = home.run(home.connect("agent"), *words)
    assert ended.said(1) == b"begins\n"
    assert (ended.exit["outcome"], ended.exit["reason"]) == ("failed", "out_of_memory")
    assert ended.exit["exit_code"] == 137


def test_memory_is_no_reason_where_it_was_not(home):
    agent = home.connect("agent")
    assert home.run(agent, *GREEDY).exit["reason"] == "out_of_memory"
    assert home.run(agent, "sh", "-c", "kill -9 $$").exit["reason"] == "killed"
    assert home.run(agent, "sh", "-c", "exit 137").exit["reason"] == "exited"
