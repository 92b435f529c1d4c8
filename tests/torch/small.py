"""A small classifier on data that it makes, with everything that could make a resume inexact."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import gpulayer.torch as glt


class Noisy(Dataset):
    """Points whose every drawing has another noise, by torch and by Python."""

    def __init__(self, count: int = 100) -> None:
        self.x = torch.randn(count, 8, generator=torch.Generator().manual_seed(3))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        noise = 0.1 * torch.randn(8) + 0.1 * random.random()
        return self.x[index] + noise, (self.x[index].sum() > 0).long()


class Net(glt.Module):
    """Dropout and batch norm; it can kill its own process after a number of batches."""

    def __init__(self, lr: float = 0.01, killed_after: int = 0) -> None:
        super().__init__()
        self.save_hyperparameters(ignore="killed_after")
        self.killed_after = killed_after
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
            torch.nn.Dropout(0.2), torch.nn.Linear(16, 2),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.killed_after and self.trainer.global_batches == self.killed_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        x, y = batch
        self.log("val_loss", torch.nn.functional.cross_entropy(self(x), y))

    test_step = validation_step

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.9)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


def quiet(**options: Any) -> glt.Trainer:
    """A trainer that keeps and says as little as it can, unless told otherwise."""
    usual: dict[str, Any] = {
        "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
        "enable_model_summary": False, "accelerator": "cpu", "num_sanity_val_steps": 0,
    }  # fmt: skip
    return glt.Trainer(**{**usual, **options})


def train_once(
    folder: Path, *, killed_after: int = 0, seed: int = 1, workers: int = 0,
    end: str = "end.json", size: int = 8, **options: Any,
) -> None:  # fmt: skip
    """Three epochs with validation inside, a checkpoint at every step, and a note of the end."""
    glt.seed_everything(seed)
    model = Net(killed_after=killed_after)
    keeps = glt.ModelCheckpoint(folder / "checkpoints", every_n_train_steps=1, save_top_k=3)
    trainer = quiet(
        **{"max_epochs": 3, "log_every_n_steps": 3, "val_check_interval": 5,
           "enable_checkpointing": None, "logger": glt.JSONLLogger(folder, "log"),
           "num_sanity_val_steps": 2, "default_root_dir": folder,
           "callbacks": [keeps, glt.EMA(0.9), glt.EarlyStopping("val_loss", patience=99),
                         glt.LearningRateMonitor()], **options},
    )  # fmt: skip
    train = DataLoader(Noisy(), size, shuffle=True, num_workers=workers)
    trainer.fit(model, train, DataLoader(Noisy(), 50), ckpt_path="last")
    ended = {
        "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
        "weights": {name: value.tolist() for name, value in model.state_dict().items()},
        "optimizer": str(trainer.optimizers[0].state_dict()),
    }
    (folder / end).write_text(json.dumps(ended))


def end_of(folder: Path) -> tuple[Any, str]:
    """How a run ended: its weights, metrics and optimiser, and every line that it logged."""
    log = (folder / "log" / "metrics.jsonl").read_text()
    return json.loads((folder / "end.json").read_text()), log


def in_a_child(work: Callable[[], None]) -> int:
    """Do it in a forked process (torch is there already); its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException as error:
            print(error)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
