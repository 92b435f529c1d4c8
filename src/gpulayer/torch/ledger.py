"""What `self.log` was told: sums that stay on the device until somebody has to know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.processes import World

REDUCTIONS = ("mean", "sum", "max", "min")


class Entry:
    """One name: its latest value, and the sum of the epoch so far."""

    __slots__ = (
        "fresh", "last", "logger", "metric", "on_epoch", "on_step", "prog_bar", "reduce", "sync",
        "total", "weight",
    )  # fmt: skip

    def __init__(
        self, on_step: bool, on_epoch: bool, reduce: str, logger: bool, prog_bar: bool, sync: bool
    ) -> None:
        self.on_step, self.on_epoch, self.reduce = on_step, on_epoch, reduce
        self.logger, self.prog_bar, self.sync = logger, prog_bar, sync
        self.last: Any = None
        self.fresh = False
        self.total: Any = None
        self.weight: float = 0
        self.metric: Any = None

    def add(self, value: Any, weight: float) -> None:
        """Count a value in; nothing is read from the device."""
        self.weight += weight
        if isinstance(value, torch.Tensor):
            if self.total is None:
                wide = torch.float32 if value.device.type == "mps" else torch.float64
                scale = weight if self.reduce == "mean" else 1
                self.total = value.to(wide, copy=True).mul_(scale)
            elif self.reduce == "mean":
                self.total.add_(value, alpha=weight)
            elif self.reduce == "sum":
                self.total.add_(value)
            else:
                choose = torch.maximum if self.reduce == "max" else torch.minimum
                self.total = choose(self.total, value.to(self.total.dtype))
        elif self.total is None:
            self.total = value * weight if self.reduce == "mean" else value
        else:
            self.total = combined(self.reduce, self.total, value, weight)


def combined(reduce: str, total: Any, value: Any, weight: float = 1) -> Any:
    """A sum with one more value in it."""
    if reduce == "mean":
        return total + value * weight
    if reduce == "sum":
        return total + value
    return max(total, value) if reduce == "max" else min(total, value)


def size_of(batch: Any) -> int:
    """How many samples a batch has: the length of its first tensor."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else 1
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, list | tuple) and batch:
        return size_of(batch[0])
    return 1


def read(values: dict[str, Any]) -> dict[str, float]:
    """The values as numbers: one read for each device that holds some."""
    found = {name: value for name, value in values.items() if not isinstance(value, torch.Tensor)}
    held: dict[torch.device, list[str]] = {}
    for name, value in values.items():
        if name not in found:
            held.setdefault(value.device, []).append(name)
    for device, names in held.items():
        wide = torch.float32 if device.type == "mps" else torch.float64
        packed = torch.stack([values[name].detach().to(wide).reshape(()) for name in names])
        found.update(zip(names, packed.tolist(), strict=True))
    return {name: float(found[name]) for name in values}


class Ledger:
    """The values of one stage (training, or one run over validation data)."""

    def __init__(self, on_step: bool) -> None:
        self.by_step = on_step
        self.entries: dict[str, Entry] = {}
        self.batch: Any = None
        self.suffix = ""

    def log(
        self, name: str, value: Any, prog_bar: bool, logger: bool, on_step: bool | None,
        on_epoch: bool | None, reduce_fx: Any, sync_dist: bool, batch_size: int | None,
    ) -> None:  # fmt: skip
        if self.suffix:
            name += self.suffix
        entry = self.entries.get(name)
        if entry is None:
            entry = self._open(
                name, value, prog_bar, logger, on_step, on_epoch, reduce_fx, sync_dist
            )
        if isinstance(value, torch.Tensor):
            value = value.detach()
        elif entry.metric is not None:
            return
        entry.last = value
        entry.fresh = True
        if entry.on_epoch:
            entry.add(value, size_of(self.batch) if batch_size is None else batch_size)

    def _open(
        self, name: str, value: Any, prog_bar: bool, logger: bool, on_step: bool | None,
        on_epoch: bool | None, reduce_fx: Any, sync: bool,
    ) -> Entry:  # fmt: skip
        reduce = reduce_fx if isinstance(reduce_fx, str) else getattr(reduce_fx, "__name__", "")
        if reduce not in REDUCTIONS:
            raise ConfigurationError(
                f"log({name!r}, reduce_fx={reduce_fx!r})", remedy="one of mean, sum, max, min"
            )
        is_metric = all(callable(getattr(value, m, None)) for m in ("compute", "reset"))
        is_one = isinstance(value, int | float) or (
            isinstance(value, torch.Tensor) and value.numel() == 1
        )
        if not is_one and not is_metric:
            shape = f" of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
            raise ConfigurationError(
                f"log({name!r}, ...) got a {type(value).__name__}{shape}",
                remedy="one number: a float, or a tensor with one element",
            )
        entry = Entry(
            (self.by_step if on_step is None else on_step) and not is_metric,
            is_metric or (not self.by_step if on_epoch is None else on_epoch),
            reduce, logger, prog_bar, sync,
        )  # fmt: skip
        entry.metric = value if is_metric else None
        self.entries[name] = entry
        return entry

    def step_values(self, world: World, again: bool = False) -> dict[str, float]:
        """What was logged since the last time, as numbers. This is the one read of a log point.

        With `again`, the latest of every name; what is new stays new.
        """
        due: dict[str, Entry] = {}
        for name, entry in self.entries.items():
            if entry.on_step and (entry.fresh or (again and entry.last is not None)):
                due[name + "_step" if entry.on_epoch else name] = entry
                entry.fresh = entry.fresh and again
        values = read({name: entry.last for name, entry in due.items()})
        shared = [name for name, entry in due.items() if entry.sync]
        if shared and world.size > 1:
            theirs = world.gather({name: values[name] for name in shared})
            for name in shared:
                values[name] = sum(v[name] for v in theirs) / len(theirs)
        return values

    def epoch_values(self, world: World, clear: bool = True) -> dict[str, float]:
        """The epoch's values over all processes, by one exchange; the sums begin again."""
        due = {n: e for n, e in self.entries.items() if e.on_epoch and e.total is not None}
        totals = read({name: entry.total for name, entry in due.items()})
        mine = {name: (e.reduce, totals[name], e.weight) for name, e in due.items()}
        sums: dict[str, tuple[str, float, float]] = {}
        for theirs in world.gather(mine):
            for name, (reduce, total, weight) in theirs.items():
                if name in sums:
                    _, before, weighed = sums[name]
                    total, weight = combined(reduce, before, total), weighed + weight
                sums[name] = (reduce, total, weight)
        values: dict[str, float] = {}
        for name, (reduce, total, weight) in sums.items():
            split = name in self.entries and self.entries[name].on_step
            mean = total / weight if reduce == "mean" and weight else total
            values[name + "_epoch" if split else name] = mean
            if split:
                values[name] = mean
        for name, entry in self.entries.items():
            if entry.metric is not None:
                values[name] = float(entry.metric.compute())
            if clear:
                entry.total, entry.weight = None, 0
                if entry.metric is not None:
                    entry.metric.reset()
        return values

    def hidden(self, name: str) -> bool:
        """Whether a name was logged with `logger=False`, or stands for two others."""
        entry = self.entries.get(name)
        if entry is None:
            entry = self.entries.get(name.removesuffix("_step").removesuffix("_epoch"))
            return entry is not None and not entry.logger
        return not entry.logger or (entry.on_step and entry.on_epoch)

    def state_dict(self) -> dict[str, Any]:
        return {
            name: {s: getattr(entry, s) for s in Entry.__slots__ if s != "metric"}
            for name, entry in self.entries.items()
            if entry.metric is None
        }

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        self.entries = {n: e for n, e in self.entries.items() if e.metric is not None}
        for name, fields in state.items():
            entry = Entry(False, False, "mean", True, False, False)
            for field, value in fields.items():
                is_tensor = isinstance(value, torch.Tensor)
                setattr(entry, field, value.to(device, copy=True) if is_tensor else value)
            self.entries[name] = entry
