"""Training, from the first step to the last: `Fit.run` is the whole of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gpulayer.torch.batches import Feed, windows
from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.evaluating import evaluate
from gpulayer.torch.phases import CALLBACKS, DATA, VALIDATION
from gpulayer.torch.randomness import isolated

if TYPE_CHECKING:
    from gpulayer.torch.trainer import Trainer


class Progress:
    """Where a run is. A plain object, for it is written at every step."""

    __slots__ = ("batch", "batches", "epoch", "seconds", "step")

    def __init__(self) -> None:
        self.epoch = self.batch = self.batches = self.step = 0
        self.seconds = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in self.__slots__:
            setattr(self, name, state[name])


class Fit:
    """One call of `fit`.

    A checkpoint is taken at a safe point alone: after a whole window of batches and what belongs
    to it, or after a whole epoch. What follows there depends on the state and on nothing else.
    """

    def __init__(self, trainer: Trainer, feed: Feed, val_feeds: list[Feed]) -> None:
        self.trainer, self.feed, self.val_feeds = trainer, feed, val_feeds
        self.at, self.hooks, self.options = trainer.at, trainer.hooks, trainer.options
        self.began = time.monotonic() - self.at.seconds
        self.told = self.at.step
        self.is_stopped = self.skips_epoch = False
        self.val_every = self._val_every()

    def run(self) -> None:
        """Train until a limit is reached or somebody says stop."""
        t, at, hooks = self.trainer, self.at, self.hooks
        advance, ledger, ends = t.optimising.advance, t.ledger, t.phases.end
        self.check_sanity()
        hooks.call("on_train_start")
        while not self.is_done():
            inside = at.batch > 0  # resumed within an epoch
            if not inside:
                t.resume_exactly()
            t.model.train()
            hooks.call("on_train_epoch_start")
            batches = self.feed.batches(at.epoch, at.batch)
            if inside:
                t.resume_exactly()
            is_through = self.skips_epoch = False
            t.phases.begin()
            for window in windows(batches, self.options.accumulate_grad_batches):
                before = at.batch
                for place, batch in enumerate(window):
                    index = at.batch
                    if t.moves:
                        batch = t.bring(batch)
                    ends(DATA)
                    ledger.batch = batch
                    for hook in hooks.on_train_batch_start:
                        if hook(batch, index) == -1:
                            self.skips_epoch = True
                    if self.skips_epoch:
                        break
                    outputs = advance(batch, index, place, len(window))
                    at.batch = index + 1
                    at.batches += 1
                    for hook in hooks.on_train_batch_end:
                        hook(outputs, batch, index)
                    ends(CALLBACKS)
                if at.step % self.options.log_every == 0 and at.step != self.told:
                    self.tell()
                if self.val_every and self.is_val_due(before):
                    self.validate()
                for hook in hooks.on_safe_point:
                    hook()
                ends(CALLBACKS)
                if self.skips_epoch or self.must_stop():
                    break
            else:
                is_through = True
            if is_through or self.skips_epoch or at.batch == self.feed.length:
                self.end_epoch()
                for hook in hooks.on_safe_point:
                    hook()
            else:
                t.publish(ledger.epoch_values(t.world, clear=False), ledger)
        t.resume_exactly()
        t.is_ending = True
        for hook in hooks.on_safe_point:
            hook()
        hooks.call("on_train_end")

    # When to stop ------------------------------------------------------------------------------
    def is_done(self) -> bool:
        """Whether no epoch is to begin (or to go on)."""
        most = self.options.max_epochs
        if self.is_stopped or self._has_steps() or (most != -1 and self.at.epoch >= (most or 0)):
            return True
        self.is_stopped = self.trainer.world.any(self._wants_to_stop())
        return self.is_stopped

    def must_stop(self) -> bool:
        """Whether to stop within an epoch. Several processes agree on it at log points alone."""
        world = self.trainer.world
        if world.size == 1:
            self.is_stopped = self._wants_to_stop()
        elif self.at.step % self.options.log_every == 0:
            self.is_stopped = world.any(self._wants_to_stop())
        return self.is_stopped or self._has_steps()

    def _has_steps(self) -> bool:
        return self.options.max_steps != -1 and self.at.step >= self.options.max_steps

    def _wants_to_stop(self) -> bool:
        t, at, options = self.trainer, self.at, self.options
        if t.interrupted:
            return True
        if options.seconds is not None and time.monotonic() - self.began >= options.seconds:
            return True
        if not t.should_stop:
            return False
        return at.epoch >= (options.min_epochs or 0) and at.step >= (options.min_steps or 0)

    def seconds(self) -> float:
        """How long this run has trained, also before it was resumed."""
        return time.monotonic() - self.began

    # Validation --------------------------------------------------------------------------------
    def check_sanity(self) -> None:
        """A few batches of validation first, so that a mistake there shows now; leaves no trace."""
        t = self.trainer
        if not self.val_feeds or not self.options.sanity or self.at.batches or self.at.epoch:
            return
        t.sanity_checking = True
        with isolated(device=t.device):
            self.hooks.call("on_sanity_check_start")
            limit = None if self.options.sanity == -1 else self.options.sanity
            evaluate(t, self.val_feeds, "validation", limit)
            self.hooks.call("on_sanity_check_end")
        t.sanity_checking = False

    def is_val_due(self, before: int) -> bool:
        """Whether a validation falls into the window that just ended."""
        each = self.options.check_val_every_n_epoch
        if each is None:
            now = self.at.batches
            return now // self.val_every > (now - self.at.batch + before) // self.val_every
        due = self.at.batch // self.val_every > before // self.val_every
        return due and (self.at.epoch + 1) % each == 0

    def validate(self) -> None:
        self.trainer.phases.end(CALLBACKS)
        evaluate(self.trainer, self.val_feeds, "validation")
        self.trainer.phases.end(VALIDATION)

    def _val_every(self) -> int:
        """Batches from one validation to the next within an epoch; 0 for at its end alone."""
        every, length = self.options.val_check_interval, self.feed.length
        if not self.val_feeds or every is None or (every == 1.0 and isinstance(every, float)):
            return 0
        if isinstance(every, float):
            if length is None:
                raise ConfigurationError(
                    f"val_check_interval={every} of data that does not tell its length",
                    remedy="val_check_interval=100, a count",
                )
            return max(1, int(length * every))
        if length is not None and every > length and self.options.check_val_every_n_epoch:
            raise ConfigurationError(
                f"val_check_interval={every}, and an epoch has {length} batches",
                remedy="a smaller one, or check_val_every_n_epoch=None to count across epochs",
            )
        return every

    # Telling -----------------------------------------------------------------------------------
    def tell(self) -> None:
        """Read what was logged: the one time in `log_every_n_steps` steps that the device is."""
        self.told = self.at.step
        self.hooks.call("on_log_point")
        self.trainer.publish(
            self.trainer.ledger.step_values(self.trainer.world), self.trainer.ledger
        )

    def end_epoch(self) -> None:
        """Validation where it is due, the epoch's values, schedules, hooks; then the next one."""
        t, at = self.trainer, self.at
        each = self.options.check_val_every_n_epoch
        if self.val_feeds and not self.val_every and each and (at.epoch + 1) % each == 0:
            self.validate()
        t.set_metrics(t.ledger.step_values(t.world, again=True))
        t.publish(t.ledger.epoch_values(t.world), t.ledger)
        t.optimising.end_epoch()
        t.ledger.by_step = False
        self.hooks.call("on_train_epoch_end")
        t.ledger.by_step = True
        t.publish(t.ledger.epoch_values(t.world), t.ledger)
        at.epoch += 1
        at.batch = 0
        t.phases.end(CALLBACKS)
