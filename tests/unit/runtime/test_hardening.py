"""A process that holds a credential cannot be dumped or looked into."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SHOW = """
import ctypes, json, os, resource
from gpulayer.runtime.hardening import harden
harden(); harden()
pr_get_dumpable = 3
print(json.dumps({
    "dumpable": ctypes.CDLL(None).prctl(pr_get_dumpable, 0, 0, 0, 0),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "umask": os.umask(0),
    "children": os.system("true"),
}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
def test_it_leaves_nothing_to_read() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW], capture_output=True, text=True, check=True, umask=0o022
    )
    assert json.loads(done.stdout) == {"dumpable": 0, "core": 0, "umask": 0o077, "children": 0}
