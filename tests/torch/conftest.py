"""Tests of `gpulayer.torch`: each module is skipped in one line where torch is missing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

with contextlib.suppress(ImportError):
    import torch

    # One thread: a forked child may train, and sums come out the same on any machine.
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test in a folder of its own, for logs and checkpoints go to the current one."""
    monkeypatch.chdir(tmp_path)
    for name in ("GPULAYER_CHECKPOINT_DIR", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
