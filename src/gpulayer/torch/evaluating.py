"""One run over validation, test or prediction data."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gpulayer.torch.batches import Feed
from gpulayer.torch.ledger import Ledger
from gpulayer.torch.precision import autocast

if TYPE_CHECKING:
    from gpulayer.torch.trainer import Trainer

STEPS = {"validation": "validation_step", "test": "test_step", "predict": "predict_step"}


def arguments_of(step: Callable[..., Any]) -> int:
    """How many of `batch, batch_idx, dataloader_idx` a step takes."""
    kinds = inspect.signature(step).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in kinds):
        return 3
    return min(3, sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in kinds))


def evaluate(
    trainer: Trainer, feeds: list[Feed], stage: str, limit: int | None = None
) -> tuple[dict[str, float], list[list[Any]]]:
    """The values that were logged, over all processes, and what the steps returned (predict)."""
    model, hooks, ledger = trainer.model, trainer.hooks, Ledger(on_step=False)
    step = getattr(model, STEPS[stage])
    several = len(feeds) > 1
    takes = min(arguments_of(step), 3 if several else 2)
    kept: list[list[Any]] = []
    training = [(module, module.training) for module in model.modules()]
    before, trainer.ledger = trainer.ledger, ledger
    model.eval()
    quiet = torch.inference_mode() if trainer.options.inference_mode else torch.no_grad()
    try:
        with quiet:
            hooks.call(f"on_{stage}_start")
            hooks.call(f"on_{stage}_epoch_start")
            for which, feed in enumerate(feeds):
                ledger.suffix = f"/dataloader_idx_{which}" if several else ""
                returned: list[Any] = []
                batches = feed.batches(0)
                for index, batch in enumerate(itertools.islice(batches, limit)):
                    batch = trainer.bring(batch, which)
                    ledger.batch = batch
                    place = (batch, index, which) if several else (batch, index)
                    hooks.call(f"on_{stage}_batch_start", *place)
                    with autocast(trainer.precision, trainer.device):
                        outputs = step(*(batch, index, which)[:takes])
                    hooks.call(f"on_{stage}_batch_end", outputs, *place)
                    if stage == "predict":
                        returned.append(outputs)
                kept.append(returned)
            ledger.suffix = ""
            hooks.call(f"on_{stage}_epoch_end")
            values = ledger.epoch_values(trainer.world)
            trainer.publish(values, ledger)
            hooks.call(f"on_{stage}_end")
    finally:
        trainer.ledger = before
        for module, mode in training:
            module.training = mode
        ledger.batch = None
    return values, kept
