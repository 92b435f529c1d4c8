"""The folder in which this process works, which somebody may have deleted meanwhile."""

from __future__ import annotations

import os
import shlex

from gpulayer.errors import PreparationError


def working_folder() -> str:
    """Raises `folder-gone`, as a job that begins in a deleted folder ends."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        named = os.environ.get("PWD", "")
        again = shlex.quote(named)
        raise PreparationError(
            "folder-gone",
            f"the folder is gone: {named}" if named else "the folder of this process is gone",
            why="it was deleted while this terminal or program was in it",
            hint=f"mkdir -p {again} && cd {again}" if os.path.isabs(named) else "cd",
        ) from None
