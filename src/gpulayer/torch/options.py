"""The options of a Trainer: the keywords that Lightning's has, checked before anything runs."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.precision import canonical

NOT_YET = {
    "plugins": "leave it out",
    "sync_batchnorm": "torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) in __init__",
    "barebones": "leave it out: nothing is slow here that could be turned off",
    "model_registry": "leave it out",
}
STRATEGIES = ("auto", "ddp", "ddp_find_unused_parameters_true")


@dataclass
class Options:
    """Every keyword of `Trainer`, with what it is when it is left out."""

    accelerator: str = "auto"
    strategy: str = "auto"
    devices: int | str | list[int] = "auto"
    num_nodes: int = 1
    precision: str | int | None = None
    logger: Any = None
    callbacks: Any = None
    fast_dev_run: int | bool = False
    max_epochs: int | None = None
    min_epochs: int | None = None
    max_steps: int = -1
    min_steps: int | None = None
    max_time: Any = None
    limit_train_batches: int | float | None = None
    limit_val_batches: int | float | None = None
    limit_test_batches: int | float | None = None
    limit_predict_batches: int | float | None = None
    overfit_batches: int | float = 0.0
    val_check_interval: int | float | None = None
    check_val_every_n_epoch: int | None = 1
    num_sanity_val_steps: int | None = None
    log_every_n_steps: int | None = None
    enable_checkpointing: bool | None = None
    enable_progress_bar: bool | None = None
    enable_model_summary: bool | None = None
    accumulate_grad_batches: int = 1
    gradient_clip_val: float | None = None
    gradient_clip_algorithm: str | None = None
    compile: bool | dict[str, Any] = False
    profiler: str | None = None
    deterministic: bool | str | None = None
    benchmark: bool | None = None
    inference_mode: bool = True
    use_distributed_sampler: bool = True
    detect_anomaly: bool = False
    reload_dataloaders_every_n_epochs: int = 0
    default_root_dir: Any = None
    on: str | None = None
    gpus: int | str | None = None
    nodes: int | None = None

    def __post_init__(self) -> None:
        self.precision = canonical(self.precision)
        if self.strategy not in STRATEGIES:
            raise ConfigurationError(
                f"strategy={self.strategy!r} is not there", remedy=f"one of {', '.join(STRATEGIES)}"
            )
        for name in ("limit_train_batches", "limit_val_batches", "limit_test_batches",
                     "limit_predict_batches", "overfit_batches", "val_check_interval"):  # fmt: skip
            self._check_share(name, getattr(self, name))
        if self.accumulate_grad_batches < 1:
            raise ConfigurationError(
                f"accumulate_grad_batches={self.accumulate_grad_batches}", remedy="1 or more"
            )
        if self.gradient_clip_algorithm not in (None, "norm", "value"):
            raise ConfigurationError(
                f"gradient_clip_algorithm={self.gradient_clip_algorithm!r}",
                remedy="'norm' or 'value'",
            )
        if self.nodes is not None:
            self.num_nodes = self.nodes
        if self.profiler not in (None, "simple"):
            raise ConfigurationError(
                f"profiler={self.profiler!r} is not there",
                remedy="'simple', or torch.profiler around trainer.fit",
            )
        self.seconds = None if self.max_time is None else seconds_of(self.max_time)
        self.log_every = 50 if self.log_every_n_steps is None else self.log_every_n_steps
        self.sanity = 2 if self.num_sanity_val_steps is None else self.num_sanity_val_steps
        if self.max_epochs is None:
            bounded = self.max_steps != -1 or self.seconds is not None
            self.max_epochs = -1 if bounded else 1000
        if self.overfit_batches:
            self.limit_train_batches = self.limit_val_batches = self.overfit_batches
        if self.fast_dev_run:
            self._hurry(int(self.fast_dev_run))

    def at_home(self) -> Options:
        """For this process, where another one is to train."""
        home = replace(self, accelerator="auto", devices="auto", nodes=None, num_nodes=1)
        return replace(home, strategy="auto", precision=None, deterministic=None, benchmark=None)

    def _hurry(self, batches: int) -> None:
        """A few batches of everything, and nothing kept."""
        self.max_epochs, self.max_steps, self.sanity = 1, batches, 0
        self.limit_train_batches = self.limit_val_batches = batches
        self.limit_test_batches = self.limit_predict_batches = batches
        self.accumulate_grad_batches = 1
        self.val_check_interval, self.check_val_every_n_epoch = None, 1
        self.logger = self.enable_checkpointing = False

    @staticmethod
    def _check_share(name: str, value: int | float | None) -> None:
        if value is None or (isinstance(value, float) and 0 <= value <= 1):
            return
        if isinstance(value, float) or value < 0:
            raise ConfigurationError(
                f"{name}={value}", remedy="a share from 0.0 to 1.0, or a count (an int)"
            )


def made(keywords: dict[str, Any]) -> Options:
    """The options; a keyword that is not one is told with the nearest that is."""
    known = [field.name for field in fields(Options)]
    for name in keywords:
        if name in NOT_YET and keywords[name] in (None, False):
            continue
        if name in NOT_YET:
            raise ConfigurationError(f"Trainer({name}=...) is not there yet", remedy=NOT_YET[name])
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            remedy = f"{near[0]}=..." if near else f"one of {', '.join(known)}"
            raise ConfigurationError(f"Trainer has no option {name!r}", remedy=remedy)
    return Options(**{name: value for name, value in keywords.items() if name in known})


def seconds_of(time: Any) -> float:
    """Seconds of a timedelta, a dict for one, a number, or `DD:HH:MM:SS`."""
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, dict):
        return timedelta(**time).total_seconds()
    if isinstance(time, int | float):
        return float(time)
    parts = str(time).split(":")
    if len(parts) != 4 or not all(part.isdigit() for part in parts):
        raise ConfigurationError(f"max_time={time!r}", remedy="'00:12:00:00' (DD:HH:MM:SS)")
    days, hours, minutes, rest = map(int, parts)
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=rest).total_seconds()
