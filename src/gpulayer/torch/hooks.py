"""The points of a run at which a module and its callbacks may act, found once per run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulayer.torch.module import Module
    from gpulayer.torch.trainer import Trainer

Listeners = tuple[Callable[..., Any], ...]

STAGES = ("validation", "test", "predict")
EVENTS = (
    "on_fit_start", "on_fit_end", "on_sanity_check_start", "on_sanity_check_end",
    "on_train_start", "on_train_end", "on_train_epoch_start", "on_train_epoch_end",
    "on_train_batch_start", "on_train_batch_end", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_before_zero_grad", "on_exception",
    "on_save_checkpoint", "on_load_checkpoint", "on_safe_point", "on_log_point",
    "setup", "teardown",
    *(f"on_{stage}_{point}" for stage in STAGES
      for point in ("start", "end", "epoch_start", "epoch_end", "batch_start", "batch_end")),
)  # fmt: skip


def nothing(self: object, *args: Any, **kwargs: Any) -> None:
    """Does nothing until it is overridden."""


def with_hooks(cls: type) -> type:
    """Give a class every event as a method that does nothing."""
    for event in EVENTS:
        if event not in vars(cls):
            setattr(cls, event, nothing)
    return cls


class Callback:
    """Something that acts at points of a run: override what you need.

    Each method gets the trainer and the module first, then what the point is about. What
    `state_dict` returns (plain values and tensors) is kept in checkpoints.
    """

    @property
    def state_key(self) -> str:
        """What the state is called in a checkpoint; two of one class need different ones."""
        return type(self).__qualname__

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        pass

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


with_hooks(Callback)


class Hooks:
    """For each event the bound methods that were really overridden: callbacks, then the module."""

    def __init__(self, trainer: Trainer, model: Module, callbacks: list[Callback]) -> None:
        for event in EVENTS:
            listeners: list[Callable[..., Any]] = [
                partial(getattr(callback, event), trainer, model)
                for callback in callbacks
                if getattr(type(callback), event, nothing) is not nothing
            ]
            if getattr(type(model), event) is not nothing or event in vars(model):
                listeners.append(getattr(model, event))
            setattr(self, event, tuple(listeners))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Listeners: ...

    def call(self, event: str, *args: Any) -> None:
        for listener in getattr(self, event):
            listener(*args)
