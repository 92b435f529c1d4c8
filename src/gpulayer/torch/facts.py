"""What a trainer can be asked, by the names that Lightning has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpulayer.torch.callbacks.checkpointing import ModelCheckpoint


class Facts:
    """Read-only views of a run."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    current_epoch = property(lambda self: self.at.epoch)
    global_step = property(lambda self: self.at.step)
    global_rank = property(lambda self: self.world.rank)
    local_rank = property(lambda self: self.world.local_rank)
    world_size = property(lambda self: self.world.size)
    is_global_zero = property(lambda self: self.world.is_first)
    training = property(lambda self: self.is_fitting)
    fast_dev_run = property(lambda self: self.options.fast_dev_run)
    max_epochs = property(lambda self: self.options.max_epochs)
    max_steps = property(lambda self: self.options.max_steps)
    accumulate_grad_batches = property(lambda self: self.options.accumulate_grad_batches)
    log_every_n_steps = property(lambda self: self.options.log_every)
    default_root_dir = property(lambda self: str(self.root))
    lightning_module = property(lambda self: self.model)
    logger = property(lambda self: self.loggers[0] if self.loggers else None)
    optimizers = property(lambda self: self.optimising.optimizers)
    lr_schedulers = property(lambda self: [s.scheduler for s in self.optimising.schedules])
    validates = property(lambda self: bool(self.fit_loop and self.fit_loop.val_feeds))
    global_batches = property(lambda self: self.at.batches)

    @property
    def num_training_batches(self) -> int | float:
        """Batches of an epoch; infinity where the data does not tell."""
        length: int | None = self.fit_loop.feed.length if self.fit_loop else None
        return float("inf") if length is None else length

    @property
    def estimated_stepping_batches(self) -> int | float:
        """How many optimiser steps the whole run will have."""
        most: int = self.options.max_steps
        epochs: int = self.options.max_epochs or 0
        length: int | None = self._planned
        if length is None or epochs == -1:
            return most if most != -1 else float("inf")
        steps = -(-length // self.options.accumulate_grad_batches) * epochs
        return steps if most == -1 or steps < most else most

    _planned: int | None = None

    @property
    def checkpoint_callback(self) -> ModelCheckpoint | None:
        found = [c for c in self.callbacks if isinstance(c, ModelCheckpoint)]
        return found[0] if found else None

    @property
    def checkpoint_callbacks(self) -> list[ModelCheckpoint]:
        return [c for c in self.callbacks if isinstance(c, ModelCheckpoint)]
