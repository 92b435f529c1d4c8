"""A slow average of the weights, which validation sees and which is there at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from gpulayer.torch.hooks import Callback

if TYPE_CHECKING:
    from gpulayer.torch.module import Module
    from gpulayer.torch.trainer import Trainer


class EMA(Callback):
    """Exponential moving average of the parameters, stepped with the optimiser.

    Validation runs on the averages; after training the module has them. Checkpoints hold both:
    `state_dict` the trained weights, the callback's state the averages.
    """

    def __init__(self, decay: float = 0.999) -> None:
        self.decay = decay
        self.averages: dict[str, torch.Tensor] = {}
        self._step = 0
        self._pairs: tuple[list[Any], list[Any]] = ([], [])

    def on_train_start(self, trainer: Trainer, pl_module: Module) -> None:
        held = {n: p for n, p in pl_module.named_parameters() if p.requires_grad}
        before = self.averages
        self.averages = {
            name: (before.get(name, p)).detach().to(p.device, copy=True) for name, p in held.items()
        }
        self._pairs = (list(self.averages.values()), [p.detach() for p in held.values()])
        self._step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            torch._foreach_lerp_(*self._pairs, 1 - self.decay)

    def on_validation_start(self, trainer: Trainer, pl_module: Module) -> None:
        if trainer.is_fitting and not trainer.sanity_checking:
            self._swap()

    def on_validation_end(self, trainer: Trainer, pl_module: Module) -> None:
        if trainer.is_fitting and not trainer.sanity_checking:
            self._swap()

    def on_train_end(self, trainer: Trainer, pl_module: Module) -> None:
        for average, weight in zip(*self._pairs, strict=True):
            weight.copy_(average)

    def _swap(self) -> None:
        for average, weight in zip(*self._pairs, strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)

    def state_dict(self) -> dict[str, Any]:
        return {"averages": self.averages}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.averages = dict(state_dict["averages"])
