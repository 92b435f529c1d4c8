"""Where a stage's batches come from: what `fit` was given, the data module, or the module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from gpulayer.torch.batches import Feed
from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.module import DataModule
from gpulayer.torch.processes import World

if TYPE_CHECKING:
    from gpulayer.torch.trainer import Trainer

SHORT = {"validation": "val"}


def loaders_of(
    trainer: Trainer, train: Any, others: Any, stage: str = "validation"
) -> tuple[Any, list[Feed]]:
    """The feed to train on (in `fit`), and those of the other stage."""
    if isinstance(train, DataModule) or isinstance(others, DataModule):
        trainer.datamodule = train if isinstance(train, DataModule) else others
        trainer.datamodule.setup("fit" if trainer.is_fitting else stage)
        train = others = None
    options, short = trainer.options, SHORT.get(stage, stage)
    share = options.use_distributed_sampler
    feed: Feed | None = None
    if trainer.is_fitting:
        train = _source(trainer, train, "train_dataloader")
        if train is None:
            raise ConfigurationError(
                "there is nothing to train on",
                remedy="fit(model, loader), a datamodule, or train_dataloader in the module",
            )
        if isinstance(train, dict | list | tuple) and any(isinstance(x, DataLoader) for x in train):
            raise ConfigurationError(
                "several loaders to train on are not there yet",
                remedy="one loader over torch.utils.data.ConcatDataset or StackDataset",
            )
        feed = Feed(
            train, trainer.seed, trainer.world, limit=options.limit_train_batches, share=share,
            pad=True, shuffle=not options.overfit_batches, name="train",
        )  # fmt: skip
        trainer._planned = feed.length
        if not type(trainer.model).validation_step.__qualname__.startswith("Module."):
            others = _source(trainer, others, "val_dataloader")
        else:
            others = None
    else:
        others = _source(trainer, others, f"{short}_dataloader")
        if others is None:
            raise ConfigurationError(
                f"there is nothing to {short} on", remedy=f"a loader, or {short}_dataloader"
            )
    limit = getattr(options, f"limit_{short}_batches")
    if others is None or limit == 0:
        return feed, []
    several = isinstance(others, list | tuple) and all(isinstance(x, DataLoader) for x in others)
    feeds = [
        Feed(each, trainer.seed, trainer.world, limit=limit, share=share, name=short)
        for each in (others if several else [others])
    ]
    return feed, [each for each in feeds if each.length != 0]


def _source(trainer: Trainer, given: Any, method: str) -> Any:
    if given is not None:
        return given
    for part in (trainer.datamodule, trainer.model):
        make = getattr(part, method, None)
        if callable(make):
            return make()
    return None


def check_lengths(world: World, feed: Feed) -> None:
    """Refuse an epoch that one process would end while the others wait for it."""
    if feed.length == 0:
        raise ConfigurationError(
            "an epoch has no batches",
            "the loader is empty, drops its only batch, or limit_train_batches leaves none",
            "a smaller batch_size, or drop_last=False",
        )
    lengths = world.gather(feed.length)
    if len(set(lengths)) > 1:
        told = ", ".join(f"rank {rank}: {length}" for rank, length in enumerate(lengths))
        raise ConfigurationError(
            f"the processes have different numbers of batches ({told})",
            "those with more would wait for the others for ever",
            "use_distributed_sampler=True with one data set, or limit_train_batches="
            f"{min((length for length in lengths if length is not None), default=1)}",
        )
