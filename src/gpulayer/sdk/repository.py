"""Which commit a folder is at, and whether its files are others: told with a job, for people."""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECONDS = 0.5
"""Longest that git is waited for; a large repository may take longer, and is then not told of."""
_ASK = ("git", "status", "--porcelain=v2", "--branch", "--untracked-files=no")


def commit_of(folder: str) -> dict[str, Any]:
    """{commit, dirty} of the repository that the folder is in. `dirty`: a file that git knows is
    another than in the commit. {} where there is none, no git, no commit yet, or no answer."""
    if not _is_inside(folder):
        return {}
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        asked = subprocess.run(
            _ASK, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            stdout=subprocess.PIPE, timeout=SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = asked.stdout.decode(errors="replace").splitlines()
    head = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    if not head or head[0] == "(initial)":
        return {}
    return {"commit": head[0], "dirty": any(line[:1] in "12u" for line in lines if line)}


def _is_inside(folder: str) -> bool:
    """Nothing is started for a folder without a repository."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True
