"""The supervisor stays small: old syntax, the standard library alone, and little of that."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import gpulayer

ROOT = Path(gpulayer.__file__).parent
HEAVY = {"subprocess", "hashlib", "_hashlib", "inspect", "dataclasses", "threading",
         "logging", "pathlib", "asyncio", "sqlite3", "pydantic"}  # fmt: skip


def loaded():
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT.parent)!r}); "
        "import gpulayer.runtime.supervisor; print('\\n'.join(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    return set(out.stdout.split())


def test_it_loads_nothing_of_ours_but_its_own_room_and_nothing_heavy():
    modules = loaded()
    ours = {name for name in modules if name.startswith("gpulayer")}
    assert {n for n in ours if not n.startswith("gpulayer.runtime")} == {
        "gpulayer",
        "gpulayer._version",
    }
    assert not modules & HEAVY


def test_it_is_written_for_every_python_from_3_8():
    for name in loaded():
        if name.startswith("gpulayer.runtime."):
            path = ROOT / "runtime" / (name.rpartition(".")[2] + ".py")
            ast.parse(path.read_text(), feature_version=(3, 8))
