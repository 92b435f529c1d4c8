"""Stop when a value no longer gets better."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.hooks import Callback

if TYPE_CHECKING:
    from gpulayer.torch.module import Module
    from gpulayer.torch.trainer import Trainer


class EarlyStopping(Callback):
    """Ends training after `patience` checks in which `monitor` was not better by `min_delta`."""

    def __init__(
        self, monitor: str, min_delta: float = 0.0, patience: int = 3, verbose: bool = False,
        mode: str = "min", strict: bool = True, check_finite: bool = True,
        stopping_threshold: float | None = None, divergence_threshold: float | None = None,
        check_on_train_epoch_end: bool | None = None,
    ) -> None:  # fmt: skip
        if mode not in ("min", "max"):
            raise ConfigurationError(f"EarlyStopping(mode={mode!r})", remedy="'min' or 'max'")
        self.monitor, self.min_delta, self.patience = monitor, abs(min_delta), patience
        self.mode, self.strict, self.check_finite = mode, strict, check_finite
        self.verbose = verbose
        self.stopping_threshold, self.divergence_threshold = (
            stopping_threshold,
            divergence_threshold,
        )
        self.on_train_epochs = check_on_train_epoch_end
        self.wait_count = self.stopped_epoch = 0
        self.best_score = math.inf if mode == "min" else -math.inf

    @property
    def state_key(self) -> str:
        return f"EarlyStopping-{self.monitor}-{self.mode}"

    def on_validation_end(self, trainer: Trainer, pl_module: Module) -> None:
        if trainer.is_fitting and not trainer.sanity_checking and not self.on_train_epochs:
            self._check(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Module) -> None:
        if self.on_train_epochs or (self.on_train_epochs is None and not trainer.validates):
            self._check(trainer)

    def _is_better(self, value: float, than: float, by: float = 0.0) -> bool:
        return value < than - by if self.mode == "min" else value > than + by

    def _check(self, trainer: Trainer) -> None:
        if self.monitor not in trainer.callback_metrics:
            if not self.strict:
                return
            known = ", ".join(sorted(trainer.callback_metrics)) or "nothing"
            raise ConfigurationError(
                f"EarlyStopping watches {self.monitor!r}, which was never logged",
                f"logged so far: {known}",
                "self.log that name, or monitor one of those",
            )
        value = float(trainer.callback_metrics[self.monitor])
        reason = self._reason(value)
        if reason:
            trainer.should_stop = True
            self.stopped_epoch = trainer.current_epoch
            if self.verbose:
                trainer.say(f"stops early: {self.monitor} {reason}")

    def _reason(self, value: float) -> str:
        """Why to stop, or nothing."""
        if self.check_finite and not math.isfinite(value):
            return f"is {value}"
        reached, lost = self.stopping_threshold, self.divergence_threshold
        if reached is not None and self._is_better(value, reached):
            return f"reached {value:g}"
        if lost is not None and not self._is_better(value, lost) and value != lost:
            return f"went to {value:g}"
        if self._is_better(value, self.best_score, self.min_delta):
            self.best_score, self.wait_count = value, 0
            return ""
        self.wait_count += 1
        if self.wait_count >= self.patience:
            return f"was not better than {self.best_score:g} {self.wait_count} times"
        return ""

    def state_dict(self) -> dict[str, Any]:
        names = ("wait_count", "stopped_epoch", "best_score")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, value in state_dict.items():
            setattr(self, name, value)
