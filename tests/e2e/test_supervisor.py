"""The supervisor runs tasks: what it starts, how they end, and what it keeps of them."""

from __future__ import annotations

import pytest
from tests.support.supervisor import SupervisorHome

pytestmark = pytest.mark.e2e


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


def test_a_command_runs_and_its_output_is_in_the_log(home):
    ended = home.run(home.connect("agent"), "sh", "-c", "echo hello; echo oh >&2")
    assert ended.exit["outcome"] == "succeeded"
    assert ended.said(1) == b"hello\n"
    assert ended.said(2) == b"oh\n"
