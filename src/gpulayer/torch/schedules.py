"""What `configure_optimizers` returned, in any of its forms, and when each schedule steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gpulayer.torch.errors import ConfigurationError

Optimizer = torch.optim.Optimizer
FIELDS = {"scheduler", "interval", "frequency", "monitor", "strict", "name", "reduce_on_plateau"}


@dataclass
class Schedule:
    """A scheduler, stepped once every `frequency` optimiser steps or epochs."""

    scheduler: Any
    interval: str = "epoch"
    frequency: int = 1
    monitor: str | None = None
    strict: bool = True
    name: str | None = None
    reduce_on_plateau: bool = False

    def __post_init__(self) -> None:
        if self.interval not in ("step", "epoch"):
            raise ConfigurationError(
                f"a scheduler's interval is {self.interval!r}", remedy="'step' or 'epoch'"
            )
        kind = torch.optim.lr_scheduler.ReduceLROnPlateau
        self.reduce_on_plateau = self.reduce_on_plateau or isinstance(self.scheduler, kind)
        if self.reduce_on_plateau and self.monitor is None:
            raise ConfigurationError(
                "ReduceLROnPlateau without a name to watch",
                remedy="{'scheduler': ..., 'monitor': 'val_loss'}",
            )

    def step(self, model_step: Callable[..., None], metrics: Mapping[str, Any]) -> None:
        """Step, with what it watches if it watches something."""
        if not self.reduce_on_plateau:
            model_step(self.scheduler, None)
        elif self.monitor is not None and self.monitor in metrics:
            model_step(self.scheduler, metrics[self.monitor])
        elif self.strict:
            raise ConfigurationError(
                f"a scheduler watches {self.monitor!r}, which was never logged",
                f"logged so far: {', '.join(sorted(metrics)) or 'nothing'}",
                "log it, or give the scheduler 'strict': False",
            )


def parse(configured: Any) -> tuple[list[Any], list[Schedule]]:
    """Optimisers and schedules out of any form that Lightning takes."""
    if configured is None:
        return [], []
    if isinstance(configured, Optimizer):
        return [configured], []
    if isinstance(configured, Mapping):
        return _of_dict(configured)
    if isinstance(configured, list | tuple) and configured:
        if all(isinstance(item, Optimizer) for item in configured):
            return list(configured), []
        if all(isinstance(item, Mapping) for item in configured):
            found = [_of_dict(item) for item in configured]
            return [o for os, _ in found for o in os], [s for _, ss in found for s in ss]
        if len(configured) == 2 and all(isinstance(item, list | tuple) for item in configured):
            return list(configured[0]), [_schedule(item) for item in configured[1]]
    raise ConfigurationError(
        f"configure_optimizers returned a {type(configured).__name__} that is not understood",
        remedy="an optimiser; a list of them; [optimisers], [schedulers]; or "
        "{'optimizer': ..., 'lr_scheduler': ...}",
    )


def _of_dict(given: Mapping[str, Any]) -> tuple[list[Any], list[Schedule]]:
    if "optimizer" not in given:
        raise ConfigurationError(
            f"configure_optimizers returned a dict of {', '.join(given)}",
            remedy="{'optimizer': ..., 'lr_scheduler': ...}",
        )
    scheduler = given.get("lr_scheduler")
    found = [] if scheduler is None else [_schedule(scheduler, given.get("monitor"))]
    return [given["optimizer"]], found


def _schedule(given: Any, monitor: str | None = None) -> Schedule:
    if not isinstance(given, Mapping):
        return Schedule(given, monitor=monitor)
    unknown = set(given) - FIELDS
    if unknown or "scheduler" not in given:
        raise ConfigurationError(
            f"a scheduler's dict has {', '.join(sorted(map(str, given)))}",
            remedy=f"'scheduler', and any of {', '.join(sorted(FIELDS - {'scheduler'}))}",
        )
    return Schedule(**{"monitor": monitor, **given})
