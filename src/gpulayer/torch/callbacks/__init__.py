"""Callbacks that come with the Trainer."""

from __future__ import annotations

from gpulayer.torch.callbacks.averaging import EMA
from gpulayer.torch.callbacks.checkpointing import ModelCheckpoint
from gpulayer.torch.callbacks.monitoring import LearningRateMonitor, ProgressBar
from gpulayer.torch.callbacks.stopping import EarlyStopping
from gpulayer.torch.hooks import Callback

__all__ = [
    "EMA", "Callback", "EarlyStopping", "LearningRateMonitor", "ModelCheckpoint", "ProgressBar",
]  # fmt: skip
