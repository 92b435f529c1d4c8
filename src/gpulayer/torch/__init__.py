"""Train with torch: a loop of your own with helpers, or a `Module` and a `Trainer`.

    import gpulayer.torch as glt

    class Net(glt.Module):
        def training_step(self, batch, batch_idx): ...
        def configure_optimizers(self): ...

    glt.Trainer(max_epochs=3).fit(Net(), loader)

The names are those of Lightning, so that a LightningModule needs another import and no more.
Needs torch and the standard library: of GPUlayer only `report` is imported, which needs no more,
and nothing of it imports this.
"""

from __future__ import annotations

from gpulayer.runtime.reporting import report
from gpulayer.torch.callbacks import (
    EMA,
    Callback,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
    ProgressBar,
)
from gpulayer.torch.errors import CheckpointError, ConfigurationError, TrainingError
from gpulayer.torch.loggers import CSVLogger, JobLogger, JSONLLogger
from gpulayer.torch.module import DataModule, Module
from gpulayer.torch.precision import autocast
from gpulayer.torch.processes import World, ddp, device, processes, world
from gpulayer.torch.randomness import seed_everything
from gpulayer.torch.trackers import MLFlowLogger, TensorBoardLogger, WandbLogger
from gpulayer.torch.trainer import Trainer

__all__ = [
    "EMA",
    "CSVLogger",
    "Callback",
    "CheckpointError",
    "ConfigurationError",
    "DataModule",
    "EarlyStopping",
    "JSONLLogger",
    "JobLogger",
    "LearningRateMonitor",
    "MLFlowLogger",
    "ModelCheckpoint",
    "Module",
    "ProgressBar",
    "TensorBoardLogger",
    "Trainer",
    "TrainingError",
    "WandbLogger",
    "World",
    "autocast",
    "ddp",
    "device",
    "processes",
    "report",
    "seed_everything",
    "world",
]  # fmt: skip
