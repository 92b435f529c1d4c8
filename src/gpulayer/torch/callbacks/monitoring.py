"""What a person sees while it trains, and the learning rates as values."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from gpulayer.torch.hooks import Callback

if TYPE_CHECKING:
    from gpulayer.torch.module import Module
    from gpulayer.torch.trainer import Trainer


class LearningRateMonitor(Callback):
    """Logs the learning rates, as `lr-AdamW`, at log points (`step`) or once an epoch."""

    def __init__(self, logging_interval: str | None = None, log_momentum: bool = False) -> None:
        self.by_epoch = logging_interval == "epoch"
        self.log_momentum = log_momentum
        self.lrs: dict[str, list[float]] = {}

    def on_log_point(self, trainer: Trainer, pl_module: Module) -> None:
        if not self.by_epoch:
            self._tell(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Module) -> None:
        if self.by_epoch:
            self._tell(trainer)

    def _tell(self, trainer: Trainer) -> None:
        values: dict[str, float] = {}
        names = [s.name for s in trainer.optimising.schedules]
        for which, optimizer in enumerate(trainer.optimizers):
            kind = type(optimizer).__name__
            name = (names[which] if which < len(names) else None) or f"lr-{kind}"
            name += f"-{which}" if len(trainer.optimizers) > 1 else ""
            groups = optimizer.param_groups
            for at, group in enumerate(groups):
                key = name if len(groups) == 1 else f"{name}/pg{at + 1}"
                values[key] = float(group["lr"])
                if self.log_momentum and "momentum" in group:
                    values[f"{key}-momentum"] = float(group["momentum"])
        for key, value in values.items():
            self.lrs.setdefault(key, []).append(value)
        trainer.noted.update(values)


class ProgressBar(Callback):
    """One line that is drawn over on a terminal, at most twice a second; else a line an epoch."""

    EVERY = 0.5

    def __init__(self, stream: Any = None) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.is_live = bool(getattr(self.stream, "isatty", lambda: False)())
        self._next = self._began = 0.0
        self._first = 0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Module) -> None:
        self._began, self._first = time.monotonic(), trainer.at.batch
        self._next = self._began + self.EVERY

    def on_safe_point(self, trainer: Trainer, pl_module: Module) -> None:
        now = time.monotonic()
        if not self.is_live or now < self._next or not trainer.is_global_zero:
            return
        self._next = now + self.EVERY
        self.stream.write(f"\r\033[K{self._line(trainer, now)}")
        self.stream.flush()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Module) -> None:
        if trainer.is_global_zero:
            start = "\r\033[K" if self.is_live else ""
            self.stream.write(f"{start}{self._line(trainer, time.monotonic())}\n")
            self.stream.flush()

    def _line(self, trainer: Trainer, now: float) -> str:
        at, total = trainer.at, trainer.num_training_batches
        pace = (at.batch - self._first) / max(now - self._began, 1e-9)
        of = f"/{total}" if isinstance(total, int) else ""
        values = " ".join(f"{n}={float(v):.4g}" for n, v in trainer.progress_bar_metrics.items())
        return f"epoch {at.epoch}: {at.batch}{of} batches, {pace:.1f}/s {values}".rstrip()
