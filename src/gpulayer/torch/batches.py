"""Batches in an order that depends on seed and epoch alone, from any position of an epoch.

The order is owned here: the loader's own sampler is asked for the whole epoch under the epoch's
seed, so its position alone restores it, and what was trained on is skipped by index, never by
drawing and throwing away. With workers, each batch has a seed of its own there, so that what a
data set draws does not depend on how many batches came before in that process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from gpulayer.torch.errors import ConfigurationError, TrainingError
from gpulayer.torch.processes import World
from gpulayer.torch.randomness import derive, isolated, seed_everything


class Seeded:
    """A data set in a worker process: it is seeded anew before each batch."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, request: tuple[int, Any]) -> Any:
        seed, index = request
        seed_everything(seed)
        return self.dataset[index]

    def __getitems__(self, request: tuple[int, list[Any]]) -> list[Any]:
        seed, indices = request
        seed_everything(seed)
        together = getattr(self.dataset, "__getitems__", None)
        found: list[Any] = together(indices) if together else [self.dataset[i] for i in indices]
        return found


class Order:
    """The sampler of a loader: what is drawn in an epoch, in the share of this process."""

    def __init__(
        self, items: Any, seed: int, world: World, *, batch_size: int | None = None,
        drop_last: bool = False, share: bool = False, pad: bool = False, seeds: bool = False,
    ) -> None:  # fmt: skip
        self.items, self.seed, self.world = items, seed, world
        self.batch_size, self.drop_last = batch_size, drop_last
        self.share, self.pad, self.seeds = share and world.size > 1, pad, seeds
        self.epoch = self.skip = 0

    def __len__(self) -> int:
        count = len(self.items)
        if self.share:
            rest = count - self.world.rank
            each = self.world.size
            count = -(-count // each) if self.pad else max(0, -(-rest // each))
        if self.batch_size is None:
            return count
        whole, rest = divmod(count, self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[Any]:
        drawn = itertools.islice(enumerate(self._drawn()), self.skip, None)
        for position, item in drawn:
            if self.seeds:
                yield derive(self.seed, self.epoch, self.world.rank, position), item
            else:
                yield item

    def _drawn(self) -> Iterable[Any]:
        for sampler in (self.items, getattr(self.items, "sampler", None)):
            if sampler is not None and hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self.epoch)
            generator = getattr(sampler, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(derive(self.seed, self.epoch, "order"))
        if not hasattr(self.items, "__len__"):
            endless: Iterator[Any] = iter(self.items)
            return endless  # it cannot be drawn ahead
        with isolated(derive(self.seed, self.epoch, "order")):
            drawn = list(self.items)
        if self.share and drawn:
            short = -len(drawn) % self.world.size if self.pad else 0
            drawn += list(itertools.islice(itertools.cycle(drawn), short))
            drawn = drawn[self.world.rank :: self.world.size]
        if self.batch_size is None:
            return drawn
        size = self.batch_size
        batches = [drawn[at : at + size] for at in range(0, len(drawn), size)]
        if self.drop_last and batches and len(batches[-1]) < size:
            batches.pop()
        return batches


class Feed:
    """The batches of one loader (or any iterable), an epoch at a time."""

    def __init__(
        self, loader: Any, seed: int, world: World, *, limit: float | int | None = None,
        share: bool = True, pad: bool = False, shuffle: bool = True, name: str = "train",
    ) -> None:  # fmt: skip
        self.source, self.name, self.seed, self.world = loader, name, seed, world
        self.order: Order | None = None
        self.loader = loader
        self._open: Any = None
        is_loader = type(loader) is DataLoader
        is_indexed = is_loader and not isinstance(loader.dataset, IterableDataset)
        if is_indexed:
            self._own(share, pad, shuffle)
        elif is_loader and loader.generator is None:
            loader.generator = torch.Generator()
        self.length = self._length(limit)
        tells = is_indexed or (not is_loader and hasattr(loader, "__len__"))
        self.may_differ = name == "train" and world.size > 1 and not tells

    def _own(self, share: bool, pad: bool, shuffle: bool) -> None:
        old = self.source
        apart = old.num_workers > 0
        ours = any(hasattr(s, "set_epoch") for s in (old.sampler, old.batch_sampler)) and shuffle
        # A sampler that is told the epoch (DistributedSampler) has shared out already.
        plain = type(old.batch_sampler) is BatchSampler
        items = old.sampler if plain or old.batch_sampler is None else old.batch_sampler
        if not shuffle:
            items, plain = SequentialSampler(old.dataset), old.batch_sampler is not None
        size = (old.batch_size or getattr(old.batch_sampler, "batch_size", 1)) if plain else None
        self.order = Order(
            items, self.seed, self.world, batch_size=size, drop_last=plain and old.drop_last,
            share=share and not ours, pad=pad, seeds=apart,
        )  # fmt: skip
        where = {"batch_size": None, "sampler": self.order}
        if old.batch_sampler is not None:
            where = {"batch_sampler": self.order}
        more = {"prefetch_factor": old.prefetch_factor} if apart else {}
        self.loader = DataLoader(
            Seeded(old.dataset) if apart else old.dataset,
            num_workers=old.num_workers, collate_fn=old.collate_fn, pin_memory=old.pin_memory,
            timeout=old.timeout, worker_init_fn=old.worker_init_fn,
            multiprocessing_context=old.multiprocessing_context,
            persistent_workers=old.persistent_workers, generator=torch.Generator(),
            **where, **more,
        )  # fmt: skip

    def _length(self, limit: float | int | None) -> int | None:
        try:
            length = len(self.loader)
        except TypeError:  # no length: it ends when it ends
            length = None
        if limit is None or (isinstance(limit, float) and limit == 1.0):
            return length
        if isinstance(limit, float):
            if length is None:
                raise ConfigurationError(
                    f"limit_{self.name}_batches={limit} of data that does not tell its length",
                    remedy=f"limit_{self.name}_batches=100, a count",
                )
            return int(length * limit)
        return limit if length is None else min(limit, length)

    def batches(self, epoch: int, skip: int = 0) -> Iterator[Any]:
        """The batches of an epoch from a position on."""
        if self.order is not None:
            self.order.epoch, self.order.skip = epoch, skip
        elif hasattr(self.loader, "set_epoch"):
            self.loader.set_epoch(epoch)
        generator = getattr(self.loader, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(derive(self.seed, epoch, "workers", self.world.rank))
        found: Iterator[Any] = iter(self.loader)
        self._open = found
        if self.order is None and skip and not hasattr(self.loader, "load_state_dict"):
            for _ in itertools.islice(found, skip):
                pass  # only the data itself knows its order: what was trained on is drawn again
        if self.may_differ:
            found = together(found, self.world, skip)
        if self.length is not None:
            found = itertools.islice(found, max(0, self.length - skip))
        return found

    def close(self) -> None:
        """End worker processes, whatever ended the run."""
        end = getattr(self._open, "_shutdown_workers", None)
        if end is not None:
            end()

    def state_dict(self) -> dict[str, Any] | None:
        """What a loader with a memory of its own wants to be kept."""
        keeps = self.order is None and hasattr(self.loader, "state_dict")
        state: dict[str, Any] | None = self.loader.state_dict() if keeps else None
        return state

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        if state is not None and hasattr(self.loader, "load_state_dict"):
            self.loader.load_state_dict(state)


def together(batches: Iterator[Any], world: World, first: int) -> Iterator[Any]:
    """Batches for as long as every process has one; an error, on all, where only some have.

    One small exchange a batch: for data that cannot say beforehand how long it is.
    """
    end = object()
    for number in itertools.count(first):
        batch = next(batches, end)
        if world.any(batch is end):
            ended = [rank for rank, over in enumerate(world.gather(batch is end)) if over]
            if len(ended) == world.size:
                return
            raise TrainingError(
                f"rank {ended[0]} has no batch left after {number}, and others have",
                "each process must train on as many batches as the others",
                f"limit_train_batches={number}, or less, or data that each has as much of",
            )
        yield batch


def windows(batches: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The batches in groups that share one optimiser step; the last may be short."""
    batches = iter(batches)
    while window := list(itertools.islice(batches, size)):
        yield window


def mover(device: torch.device) -> Callable[[Any], Any]:
    """What brings a batch to the device: tensors in tuples, lists and dicts."""

    def move(batch: Any) -> Any:
        if isinstance(batch, torch.Tensor):
            return batch.to(device, non_blocking=True)
        if isinstance(batch, Mapping):
            return type(batch)({k: move(v) for k, v in batch.items()})  # type: ignore[call-arg]
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*map(move, batch))
        if isinstance(batch, list | tuple):
            return type(batch)(map(move, batch))
        return batch.to(device) if hasattr(batch, "to") else batch

    return move
