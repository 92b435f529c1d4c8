"""A data folder of its own for each suite, and nothing left running after it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GPULAYER = str(Path(sys.executable).with_name("gpulayer"))


@contextmanager
def scratch_home() -> Iterator[dict[str, str]]:
    """The environment of a suite."""
    with tempfile.TemporaryDirectory(prefix="gpulayer-bench-") as folder:
        environ = {**os.environ, "GPULAYER_HOME": f"{folder}/home", "XDG_RUNTIME_DIR": folder}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ.update(environ)
        try:
            yield environ
        finally:
            subprocess.run([GPULAYER, "stop", "--force"], env=environ, capture_output=True,
                           check=False)  # fmt: skip
