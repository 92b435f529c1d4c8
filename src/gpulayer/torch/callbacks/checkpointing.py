"""When a checkpoint is taken, where it lies, and which ones are kept."""

from __future__ import annotations

import math
import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.files import SUFFIX, check_writable, link
from gpulayer.torch.hooks import Callback

if TYPE_CHECKING:
    from gpulayer.torch.module import Module
    from gpulayer.torch.trainer import Trainer

FIELD = re.compile(r"\{([^}:]+)(:[^}]*)?\}")


class ModelCheckpoint(Callback):
    """Keeps checkpoints: the `save_top_k` best by `monitor`, or without one the newest.

    Taken at the end of an epoch (after validation, where there is one), every `every_n_train_steps`
    steps, or as often as `train_time_interval` says; and at the end of the run. With
    `asynchronous=True` the file is written beside the training.
    """

    def __init__(
        self, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None,
        monitor: str | None = None, verbose: bool = False, save_last: bool | None = None,
        save_top_k: int = 1, save_weights_only: bool = False, mode: str = "min",
        auto_insert_metric_name: bool = True, every_n_train_steps: int | None = None,
        train_time_interval: timedelta | None = None, every_n_epochs: int | None = None,
        save_on_train_epoch_end: bool | None = None, asynchronous: bool = False,
    ) -> None:  # fmt: skip
        if mode not in ("min", "max"):
            raise ConfigurationError(f"ModelCheckpoint(mode={mode!r})", remedy="'min' or 'max'")
        self.dirpath = Path(dirpath) if dirpath is not None else None
        self.filename = filename or "{epoch}-{step}"
        self.monitor, self.mode, self.save_top_k = monitor, mode, save_top_k
        self.verbose, self.save_last = verbose, save_last
        self.save_weights_only, self.inserts_names = save_weights_only, auto_insert_metric_name
        self.every_steps, self.interval = every_n_train_steps, train_time_interval
        by_epoch = every_n_train_steps is None and train_time_interval is None
        self.every_epochs = every_n_epochs if every_n_epochs is not None else int(by_epoch)
        self.on_train_epochs = save_on_train_epoch_end
        self.asynchronous = asynchronous
        self.best_model_path = self.last_model_path = ""
        self.best_model_score: float | None = None
        self._kept: dict[str, float] = {}  # path: score, the smaller the better
        self._is_due = False
        self._saved_at = (-1, -1)
        self._clock = time.monotonic()

    @property
    def state_key(self) -> str:
        return f"ModelCheckpoint-{self.monitor}-{self.every_steps}-{self.every_epochs}"

    is_implicit = False

    def keeps_newest(self, trainer: Trainer) -> bool:
        """Whether a run can go on from here where it was."""
        elsewhere = self.dirpath is not None and self.dirpath != trainer.checkpoint_folder
        return self.monitor is None and self.save_top_k != 0 and not elsewhere

    def setup(self, trainer: Trainer, pl_module: Module, stage: str) -> None:
        if stage != "fit" or trainer.fast_dev_run:
            return
        if self.dirpath is None:
            self.dirpath = trainer.checkpoint_folder
        if trainer.is_global_zero:
            check_writable(self.dirpath)
        self._clock = time.monotonic()

    def on_validation_end(self, trainer: Trainer, pl_module: Module) -> None:
        if not trainer.sanity_checking and trainer.is_fitting and not self.on_train_epochs:
            self._is_due = self._is_epoch(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Module) -> None:
        if self.on_train_epochs or (self.on_train_epochs is None and not trainer.validates):
            self._is_due = self._is_epoch(trainer)

    def _is_epoch(self, trainer: Trainer) -> bool:
        return bool(self.every_epochs) and (trainer.current_epoch + 1) % self.every_epochs == 0

    def on_safe_point(self, trainer: Trainer, pl_module: Module) -> None:
        step = trainer.global_step
        at = (trainer.current_epoch, step)
        due, self._is_due = self._is_due, False
        if self.every_steps and step % self.every_steps == 0:
            due = True
        if self.interval is not None:
            due = due or self._is_time(trainer)
        if trainer.is_ending:
            due = due or trainer.interrupted or self.monitor is None
        if due and at != self._saved_at and step and not trainer.fast_dev_run:
            self.save(trainer)

    def _is_time(self, trainer: Trainer) -> bool:
        """Whether the interval is over; several processes ask each other at log points alone."""
        over = time.monotonic() - self._clock >= self.interval.total_seconds()  # type: ignore[union-attr]
        if trainer.world_size == 1:
            return over
        asks = trainer.global_step % trainer.options.log_every == 0
        return asks and trainer.world.any(over)

    def save(self, trainer: Trainer) -> None:
        """Take one now; where it has to make room, what goes is removed once it is whole."""
        assert self.dirpath is not None
        self._clock = time.monotonic()
        self._saved_at = (trainer.current_epoch, trainer.global_step)
        score = self._score(trainer)
        is_good = self.save_top_k != 0 and self._is_among_best(score)
        if not is_good and not self.save_last and not trainer.interrupted:
            return
        path = self.dirpath / self._name(trainer)
        gone: list[Path] = []
        if is_good:
            path = self._free(path)
            self._kept[str(path)] = score
            while 0 < self.save_top_k < len(self._kept):
                worst = max(self._kept, key=lambda p: self._kept[p])
                del self._kept[worst]
                gone.append(Path(worst))
            self.best_model_path = min(self._kept, key=lambda p: self._kept[p])
            best = self._kept[self.best_model_path]
            if self.monitor is not None:
                self.best_model_score = best if self.mode == "min" else -best
        else:
            path = self.dirpath / f"last{SUFFIX}"
        last = self.dirpath / f"last{SUFFIX}"
        self.last_model_path = str(last if self.save_last else path)

        def then() -> None:
            if self.save_last and path != last:
                link(path, last)
            for old in gone:
                old.unlink(missing_ok=True)

        trainer.keep(
            path, self.dirpath, weights_only=self.save_weights_only, beside=self.asynchronous,
            then=then,
        )  # fmt: skip
        if self.verbose:
            trainer.say(f"checkpoint {path}")

    def _score(self, trainer: Trainer) -> float:
        if self.monitor is None:
            return -float(trainer.at.batches * 2 + (trainer.at.batch == 0))  # the newest is best
        if self.monitor not in trainer.callback_metrics:
            known = ", ".join(sorted(trainer.callback_metrics)) or "nothing"
            raise ConfigurationError(
                f"ModelCheckpoint watches {self.monitor!r}, which was never logged",
                f"logged so far: {known}",
                "self.log that name, or monitor one of those",
            )
        value = float(trainer.callback_metrics[self.monitor])
        if math.isnan(value):
            return math.inf
        return value if self.mode == "min" else -value

    def _is_among_best(self, score: float) -> bool:
        if self.save_top_k == -1 or len(self._kept) < self.save_top_k:
            return True
        return score < max(self._kept.values())

    def _name(self, trainer: Trainer) -> str:
        values: dict[str, Any] = {n: float(v) for n, v in trainer.callback_metrics.items()}
        values |= {"epoch": trainer.current_epoch, "step": trainer.global_step}

        def fill(found: re.Match[str]) -> str:
            name, shape = found[1], (found[2] or "")[1:]
            label = f"{name}=" if self.inserts_names else ""
            return label + format(values.get(name, 0), shape)

        return FIELD.sub(fill, self.filename).replace(os.sep, "_") + SUFFIX

    def _free(self, path: Path) -> Path:
        """A name that no earlier run has taken: `-v1`, `-v2` at its end."""
        plain, version = path, 0
        while path.exists() or str(path) in self._kept:
            version += 1
            path = plain.with_name(f"{plain.stem}-v{version}{SUFFIX}")
        return path

    def state_dict(self) -> dict[str, Any]:
        return {
            "kept": {os.path.basename(path): score for path, score in self._kept.items()},
            "best": os.path.basename(self.best_model_path),
            "last": os.path.basename(self.last_model_path),
            "score": self.best_model_score,
            "due": self._is_due,
            "saved_at": list(self._saved_at),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Paths are by name, for the folder may lie elsewhere on another machine."""
        assert self.dirpath is not None
        paths = {str(self.dirpath / name): score for name, score in state_dict["kept"].items()}
        self._kept = {path: score for path, score in paths.items() if os.path.exists(path)}
        for name in ("best", "last"):
            value = state_dict[name]
            setattr(self, f"{name}_model_path", str(self.dirpath / value) if value else "")
        self.best_model_score = state_dict["score"]
        self._is_due = state_dict["due"]
        self._saved_at = tuple(state_dict["saved_at"])
