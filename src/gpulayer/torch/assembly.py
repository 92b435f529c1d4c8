"""The parts of a trainer that its options name: processes, callbacks, loggers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gpulayer.torch.callbacks.checkpointing import ModelCheckpoint
from gpulayer.torch.callbacks.monitoring import ProgressBar
from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.hooks import Callback
from gpulayer.torch.loggers import JobLogger, JSONLLogger
from gpulayer.torch.module import Module
from gpulayer.torch.options import Options
from gpulayer.torch.processes import World, world

if TYPE_CHECKING:
    from gpulayer.torch.trainer import Trainer

EVERY = timedelta(minutes=5)


def world_of(options: Options) -> World:
    """This process among the others, checked against what the options ask for."""
    devices, index = options.devices, None
    if isinstance(devices, list):
        index = devices[0] if len(devices) == 1 else None
        count: int | None = len(devices)
    else:
        count = None if devices in ("auto", -1, "-1") else int(devices)
    here = world(options.accelerator, index)
    asked = None if count is None else count * options.num_nodes
    if asked is not None and asked != here.size:
        started = "this process runs alone" if here.size == 1 else f"WORLD_SIZE is {here.size}"
        raise ConfigurationError(
            f"devices={options.devices} on {options.num_nodes} nodes is {asked} processes, "
            f"and {started}",
            "a Trainer is one process of a job; the launcher starts the others",
            f"gpulayer launch --nodes {options.num_nodes} --procs-per-node {count} train.py",
        )
    if options.benchmark is not None:
        torch.backends.cudnn.benchmark = options.benchmark
    if options.deterministic:
        warns = options.deterministic == "warn"
        torch.use_deterministic_algorithms(True, warn_only=warns)
    return here


def callbacks_of(
    options: Options, model: Module | None = None, trainer: Trainer | None = None
) -> list[Callback]:
    """The callbacks of a run, in order; those that keep checkpoints see what others did."""
    if trainer is not None and model is not None:
        found = list(trainer.callbacks)
        more = model.configure_callbacks()
        for callback in [more] if isinstance(more, Callback) else more:
            found = [c for c in found if type(c) is not type(callback)] + [callback]
        found += _resumable(options, found, trainer)
    else:
        given = options.callbacks or []
        found = [given] if isinstance(given, Callback) else list(given)
        bars = any(isinstance(c, ProgressBar) for c in found)
        if options.enable_progress_bar is not False and not bars:
            found.append(ProgressBar())
        keeps = any(isinstance(c, ModelCheckpoint) for c in found)
        if options.enable_checkpointing is False and not options.fast_dev_run and keeps:
            raise ConfigurationError(
                "enable_checkpointing=False, and callbacks has a ModelCheckpoint",
                remedy="leave one of them out",
            )
        if options.enable_checkpointing is not False and not keeps:
            found.append(ModelCheckpoint(save_top_k=2, every_n_epochs=1, train_time_interval=EVERY))
    keys = [callback.state_key for callback in found]
    for key in {key for key in keys if keys.count(key) > 1}:
        raise ConfigurationError(
            f"two callbacks have the state_key {key!r}",
            "a checkpoint could not tell them apart",
            "override state_key in one of them",
        )
    return sorted(found, key=lambda callback: isinstance(callback, ModelCheckpoint))


def _resumable(options: Options, found: list[Callback], trainer: Trainer) -> list[Callback]:
    """In a job that is to go on by itself, something that keeps the newest state."""
    if not trainer.goes_on_by_itself():
        return []
    for callback in found:
        if isinstance(callback, ModelCheckpoint) and callback.keeps_newest(trainer):
            return []
    newest = ModelCheckpoint(
        filename="newest-{epoch}-{step}", save_top_k=2, every_n_epochs=1, train_time_interval=EVERY
    )
    newest.is_implicit = True
    return [newest]


def loggers_of(options: Options, root: Path) -> list[Any]:
    """The loggers; with nothing said, lines of JSON in `logs`. In a job its metrics as well."""
    given = options.logger
    if given is False:
        return []
    if given is None or given is True:
        given = [JSONLLogger(root / "logs")]
    found = list(given) if isinstance(given, list | tuple) else [given]
    job = JobLogger()
    if job.is_heard and not any(isinstance(logger, JobLogger) for logger in found):
        found.append(job)
    for logger in found:
        if not callable(getattr(logger, "log_metrics", None)):
            raise ConfigurationError(
                f"{type(logger).__name__} is no logger", remedy="an object with log_metrics"
            )
    return found
