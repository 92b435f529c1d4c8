"""Everything that a run's next step depends on, as one dict; and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpulayer.torch.errors import CheckpointError
from gpulayer.torch.files import plain
from gpulayer.torch.randomness import capture, restore

if TYPE_CHECKING:
    from gpulayer.torch.trainer import Trainer

VERSION = 1


def collect(trainer: Trainer, weights_only: bool = False) -> dict[str, Any]:
    """The state now, the same on every process; the keys of weights are those of Lightning."""
    model, at = trainer.model, trainer.at
    state: dict[str, Any] = {
        "epoch": at.epoch,
        "global_step": at.step,
        "state_dict": model.state_dict(),
        "hyper_parameters": dict(model.hparams),
    }
    if not weights_only:
        fit = trainer.fit_loop
        at.seconds = fit.seconds() if fit else at.seconds
        mine = {
            "randomness": capture(trainer.device),
            "loader": fit.feed.state_dict() if fit else None,
            "ledger": trainer.ledger.state_dict(),
        }
        state |= trainer.optimising.state_dict()
        state |= {
            "callbacks": {c.state_key: c.state_dict() for c in trainer.callbacks},
            "loggers": [getattr(log, "state_dict", dict)() for log in trainer.loggers],
            "gpulayer": {
                "version": VERSION,
                "seed": trainer.seed,
                "progress": at.state_dict(),
                "ranks": trainer.world.gather(mine),
                "metrics": {n: float(v) for n, v in trainer.callback_metrics.items()},
                "training": [n for n, m in model.named_modules() if m.training],
            },
        }
        if trainer.datamodule is not None:
            state["datamodule"] = trainer.datamodule.state_dict()
    trainer.hooks.call("on_save_checkpoint", state)
    plain(state)
    return state


def check(trainer: Trainer, state: dict[str, Any], name: str) -> None:
    """Refuse a checkpoint that this run cannot go on from."""
    ours = state.get("gpulayer")
    if ours is None:
        raise CheckpointError(
            f"{name} holds weights, and no state of a run",
            "it was written by something else, or with weights_only",
            "MyModule.load_from_checkpoint(path) takes its weights",
        )
    if ours["version"] > VERSION:
        raise CheckpointError(f"{name} was written by a newer GPUlayer", remedy="upgrade this one")
    if len(ours["ranks"]) != trainer.world.size:
        raise CheckpointError(
            f"{name} was written by {len(ours['ranks'])} processes, these are {trainer.world.size}",
            "each has its own share of the data and its own random numbers",
            "start as many, or begin anew from its weights: MyModule.load_from_checkpoint(path)",
        )


def apply_model(trainer: Trainer, state: dict[str, Any]) -> None:
    """The weights, optimisers, schedules, position: what a run is made of."""
    model, ours = trainer.model, state["gpulayer"]
    trainer.hooks.call("on_load_checkpoint", state)
    model.load_state_dict(state["state_dict"], strict=model.strict_loading)
    trainer.optimising.load_state_dict(state)
    trainer.at.load_state_dict(ours["progress"])
    trainer.seed = ours["seed"]


def apply_callbacks(trainer: Trainer, state: dict[str, Any]) -> None:
    """What callbacks, loggers and the data module kept, by their keys."""
    for callback in trainer.callbacks:
        kept = state["callbacks"].get(callback.state_key)
        if kept is not None:
            callback.load_state_dict(kept)
    for logger, kept in zip(trainer.loggers, state["loggers"], strict=False):
        if trainer.world.is_first and hasattr(logger, "load_state_dict"):
            logger.load_state_dict(kept, trainer.at.step)
    if trainer.datamodule is not None and "datamodule" in state:
        trainer.datamodule.load_state_dict(state["datamodule"])


def apply_exactly(trainer: Trainer, state: dict[str, Any]) -> None:
    """Once more just before the next step: what hooks and loaders did at the start is undone."""
    ours = state["gpulayer"]
    mine = ours["ranks"][trainer.world.rank]
    trainer.model.load_state_dict(state["state_dict"], strict=trainer.model.strict_loading)
    trainer.optimising.load_state_dict(state)
    trainer.ledger.load_state_dict(mine["ledger"], trainer.device)
    trainer.set_metrics(ours["metrics"])
    training = set(ours["training"])
    for name, module in trainer.model.named_modules():
        module.training = name in training
    restore(mine["randomness"], trainer.device)
