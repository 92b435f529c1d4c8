"""One batch forward and back, and a step of the optimiser at the end of each window."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from gpulayer.torch.compiling import compiled
from gpulayer.torch.errors import ConfigurationError, TrainingError
from gpulayer.torch.evaluating import arguments_of
from gpulayer.torch.module import Module
from gpulayer.torch.phases import OPTIMISER, STEP
from gpulayer.torch.precision import autocast, scaler
from gpulayer.torch.processes import ddp
from gpulayer.torch.schedules import parse

if TYPE_CHECKING:
    from gpulayer.torch.trainer import Trainer


class _Step(torch.nn.Module):
    """Lets DDP's forward be the training step, so that it sees what takes part in the loss."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any) -> Any:
        return self.model.training_step(*args)


class Optimising:
    """The optimisers of a run. What does not change from step to step is decided here, once."""

    def __init__(self, trainer: Trainer) -> None:
        options, model = trainer.options, trainer.model
        self.trainer, self.model, self.options = trainer, model, options
        self.optimizers, self.schedules = parse(model.configure_optimizers())
        self.ends = trainer.phases.end
        self.automatic = bool(model.automatic_optimization)
        self.scaler = scaler(trainer.precision, trainer.device)
        self.mixes = trainer.precision != "32-true"
        self.takes = min(2, arguments_of(model.training_step))
        self.by_step = [s for s in self.schedules if s.interval == "step"]
        self.replaces = {
            name: getattr(type(model), name) is not getattr(Module, name)
            for name in ("backward", "optimizer_step", "optimizer_zero_grad",
                         "configure_gradient_clipping")
        }  # fmt: skip
        self.closes = self.replaces["optimizer_step"]
        self.closes |= any(isinstance(o, torch.optim.LBFGS) for o in self.optimizers)
        self._check()
        compiled(model, options.compile)
        self.wrapped: Any = None
        if self.automatic:
            self.step = self._share(model)
        else:
            self.step = model.training_step
            for optimizer in self.optimizers:
                optimizer.register_step_post_hook(self._count)
            if trainer.world.size > 1:
                self._share_by_hand()

    def _check(self) -> None:
        options = self.options
        if self.automatic and len(self.optimizers) > 1:
            raise ConfigurationError(
                f"{len(self.optimizers)} optimisers with automatic optimisation",
                "which of them steps when is yours to say",
                "self.automatic_optimization = False, and step them in training_step",
            )
        if not self.automatic:
            for name in ("gradient_clip_val", "accumulate_grad_batches"):
                value = getattr(options, name)
                if value not in (None, 0, 1) or (name == "gradient_clip_val" and value):
                    raise ConfigurationError(
                        f"{name}={value} with automatic_optimization=False",
                        remedy="do it in training_step: self.clip_gradients(optimizer, ...)",
                    )
        if self.scaler is not None and self.closes:
            raise ConfigurationError(
                "precision='16-mixed' with an optimiser that takes a closure",
                "a step that was skipped for infinite gradients cannot be told to it",
                "precision='bf16-mixed' or '32-true'",
            )

    def _share(self, model: Module) -> Any:
        """The training step; with several processes, inside DDP."""
        world = self.trainer.world
        if world.size == 1:
            return model.training_step
        unused = "unused" in self.options.strategy
        self.wrapped = ddp(_Step(model), world, find_unused_parameters=unused)
        return self.wrapped

    def _share_by_hand(self) -> None:
        """Average gradients before each step of an optimiser that the module itself steps."""
        size = self.trainer.world.size
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            torch.distributed.broadcast(tensor.detach(), src=0)

        def average(optimizer: Any, *_: Any) -> None:
            held = [p for group in optimizer.param_groups for p in group["params"]]
            for parameter in held:
                if parameter.requires_grad and parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            grads = [p.grad for p in held if p.grad is not None]
            flat = torch.cat([grad.reshape(-1) for grad in grads])
            torch.distributed.all_reduce(flat)
            flat /= size
            parts = flat.split([grad.numel() for grad in grads])
            for grad, part in zip(grads, parts, strict=True):
                grad.copy_(part.view_as(grad))

        for optimizer in self.optimizers:
            optimizer.register_step_pre_hook(average)

    def _count(self, *_: Any) -> None:
        self.trainer.at.step += 1

    def advance(self, batch: Any, index: int, place: int, size: int) -> Any:
        """One batch, the `place`-th of a window of `size`: the mean over the window is learnt."""
        if not self.automatic:
            outputs = self._forward(batch, index)
            self.ends(STEP)
            return outputs
        if place < size - 1:
            if self.wrapped is None:
                return self._back(batch, index, place, size)
            with self.wrapped.no_sync():
                return self._back(batch, index, place, size)
        optimizer, hooks = self.optimizers[0], self.trainer.hooks
        if self.closes:
            return self._close(batch, index, place, size)
        outputs = self._back(batch, index, place, size)
        self._clip(optimizer)
        for hook in hooks.on_before_optimizer_step:
            hook(optimizer)
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
        self._stepped()
        self.ends(OPTIMISER)
        return outputs

    def _close(self, batch: Any, index: int, place: int, size: int) -> Any:
        """A step that calls for its gradients itself (LBFGS, an `optimizer_step` of your own)."""
        outputs: list[Any] = []
        optimizer = self.optimizers[0]

        def closure() -> Any:
            outputs[:] = [self._back(batch, index, place, size)]
            self._clip(optimizer)
            for hook in self.trainer.hooks.on_before_optimizer_step:
                hook(optimizer)
            return loss_of(outputs[0])

        self.model.optimizer_step(self.trainer.at.epoch, index, optimizer, closure)
        self._stepped()
        self.ends(STEP)
        return outputs[0] if outputs else None

    def _forward(self, batch: Any, index: int) -> Any:
        if self.mixes:
            with autocast(self.trainer.precision, self.trainer.device):
                return self.step(batch, index) if self.takes == 2 else self.step(batch)
        return self.step(batch, index) if self.takes == 2 else self.step(batch)

    def _back(self, batch: Any, index: int, place: int, size: int) -> Any:
        outputs = self._forward(batch, index)
        loss = outputs if isinstance(outputs, torch.Tensor) else loss_of(outputs)
        hooks = self.trainer.hooks
        if place == 0:
            for hook in hooks.on_before_zero_grad:
                hook(self.optimizers[0])
            if self.replaces["optimizer_zero_grad"]:
                self.model.optimizer_zero_grad(self.trainer.at.epoch, index, self.optimizers[0])
            else:
                self.optimizers[0].zero_grad()
        if loss is None:
            return outputs
        if size > 1:
            loss = loss / size
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        for hook in hooks.on_before_backward:
            hook(loss)
        if self.replaces["backward"]:
            self.model.backward(loss)
        else:
            loss.backward()
        for hook in hooks.on_after_backward:
            hook()
        self.ends(STEP)
        return outputs

    def _clip(self, optimizer: Any) -> None:
        limit = self.options.gradient_clip_val
        if limit is None and not self.replaces["configure_gradient_clipping"]:
            return
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)
        how = self.options.gradient_clip_algorithm
        self.model.configure_gradient_clipping(optimizer, limit, how)

    def _stepped(self) -> None:
        at = self.trainer.at
        at.step += 1
        for schedule in self.by_step:
            if at.step % schedule.frequency == 0:
                schedule.step(self.model.lr_scheduler_step, self.trainer.callback_metrics)

    def end_epoch(self) -> None:
        """Schedules that step by epoch."""
        done = self.trainer.at.epoch + 1
        for schedule in self.schedules:
            if schedule.interval == "epoch" and self.automatic and done % schedule.frequency == 0:
                schedule.step(self.model.lr_scheduler_step, self.trainer.callback_metrics)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "optimizer_states": [optimizer.state_dict() for optimizer in self.optimizers],
            "lr_schedulers": [schedule.scheduler.state_dict() for schedule in self.schedules],
        }
        if self.scaler is not None:
            state["scaler"] = self.scaler.state_dict()
        if not self.automatic:  # a window of the module's own may be open
            named = self.model.named_parameters()
            state["gradients"] = {n: p.grad for n, p in named if p.grad is not None}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        kinds = (("optimizer_states", self.optimizers), ("lr_schedulers", self.schedules))
        for name, mine in kinds:
            if len(state[name]) != len(mine):
                raise ConfigurationError(
                    f"the checkpoint has {len(state[name])} of {name}, this module {len(mine)}",
                    remedy="resume with the configure_optimizers that it was saved with",
                )
        for optimizer, saved in zip(self.optimizers, state["optimizer_states"], strict=True):
            optimizer.load_state_dict(saved)
        for schedule, saved in zip(self.schedules, state["lr_schedulers"], strict=True):
            schedule.scheduler.load_state_dict(dict(saved))
        if self.scaler is not None and "scaler" in state:
            self.scaler.load_state_dict(state["scaler"])
        parameters = dict(self.model.named_parameters())
        for name, grad in state.get("gradients", {}).items():
            parameters[name].grad = grad.to(parameters[name].device, copy=True)

    @functools.cached_property
    def described(self) -> str:
        """The optimisers by name, for the line that a run begins with."""
        return ", ".join(type(optimizer).__name__ for optimizer in self.optimizers) or "none"


def loss_of(outputs: Any) -> Any:
    """The loss in what a training step returned; None where the batch was left out."""
    if outputs is None or isinstance(outputs, torch.Tensor):
        return outputs
    try:
        return outputs["loss"]
    except (TypeError, KeyError, IndexError):
        raise TrainingError(
            f"training_step returned a {type(outputs).__name__} with no loss in it",
            remedy="return the loss, or {'loss': loss, ...}, or None to leave the batch out",
        ) from None
