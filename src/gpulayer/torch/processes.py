"""This process among those of its job: which one it is, on what device, and how they agree."""

from __future__ import annotations

import atexit
import ctypes
import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gpulayer.torch.errors import ConfigurationError

LIMIT = timedelta(minutes=10)
"""For how long a process waits for the others in a collective."""


@dataclass(frozen=True)
class World:
    """The processes of this job, as torchrun and `gpulayer launch` tell them."""

    rank: int
    size: int
    local_rank: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks, on every one of them."""
        if self.size == 1:
            return [value]
        mine = _packed(value).to(self.device)
        sizes = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.size)]
        dist.all_gather(sizes, torch.tensor([mine.numel()], device=self.device))
        lengths = [int(size.item()) for size in sizes]
        room = torch.zeros(max(lengths), dtype=torch.uint8, device=self.device)
        room[: mine.numel()] = mine
        found = [torch.empty_like(room) for _ in lengths]
        dist.all_gather(found, room)
        return [_unpacked(part[:n]) for part, n in zip(found, lengths, strict=True)]

    def any(self, flag: bool) -> bool:
        """Whether the flag is up on any process; one small reduction."""
        if self.size == 1:
            return flag
        up = torch.tensor([int(flag)], device=self.device)
        dist.all_reduce(up, op=dist.ReduceOp.MAX)
        return bool(up.item())

    def from_first(self, value: Any) -> Any:
        """What the first process has, on all of them."""
        if self.size == 1:
            return value
        packed = _packed(value if self.is_first else None).to(self.device)
        size = torch.tensor([packed.numel()], device=self.device)
        dist.broadcast(size, src=0)
        if not self.is_first:
            packed = torch.empty(int(size.item()), dtype=torch.uint8, device=self.device)
        dist.broadcast(packed, src=0)
        return _unpacked(packed)

    def barrier(self) -> None:
        if self.size > 1:
            dist.barrier()


def _packed(value: Any) -> Any:
    """Plain values and tensors as bytes. (torch's own exchange of objects needs numpy.)"""
    held = io.BytesIO()
    torch.save(value, held)
    return torch.frombuffer(bytearray(held.getvalue()), dtype=torch.uint8)


def _unpacked(packed: Any) -> Any:
    here = packed.cpu().contiguous()
    raw = ctypes.string_at(here.data_ptr(), here.numel())
    return torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)


def device(accelerator: str = "auto", index: int | None = None) -> torch.device:
    """The device of this process: its own GPU where there is one, else Apple's, else the CPU."""
    if accelerator not in ("auto", "cpu", "gpu", "cuda", "mps"):
        raise ConfigurationError(
            f"accelerator={accelerator!r} is not known",
            remedy="one of auto, cpu, gpu, cuda, mps",
        )
    if accelerator in ("gpu", "cuda", "auto") and torch.cuda.is_available():
        here = int(os.environ.get("LOCAL_RANK", "0")) if index is None else index
        if here >= torch.cuda.device_count():
            raise ConfigurationError(
                f"GPU {here} was asked for and torch sees {torch.cuda.device_count()}",
                "each process of a job needs a GPU of its own",
                "gpulayer launch --gpus N --procs-per-node N, with N GPUs or fewer",
            )
        return torch.device("cuda", here)
    if accelerator in ("gpu", "mps", "auto") and torch.backends.mps.is_available():
        return torch.device("mps")
    if accelerator in ("auto", "cpu"):
        return torch.device("cpu")
    raise ConfigurationError(
        f"accelerator={accelerator!r}, and torch sees no such device here",
        f"torch {torch.__version__} reports no usable GPU",
        "accelerator='cpu' or 'auto', or a machine with a GPU: gpulayer run --gpus 1 -- ...",
    )


def world(accelerator: str = "auto", index: int | None = None) -> World:
    """Which process this is, by the variables that torchrun and `gpulayer launch` set."""
    read = {name: os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    here = device(accelerator, index)
    if not read["RANK"] or not read["WORLD_SIZE"]:
        return World(0, 1, 0, here)
    told = ", ".join(f"{name}={value}" for name, value in read.items() if value)
    try:
        rank, size, local = (int(value or 0) for value in read.values())
    except ValueError:
        rank, size, local = -1, 0, 0
    if not 0 <= rank < size or (size > 1 and not os.environ.get("MASTER_ADDR")):
        raise ConfigurationError(
            f"this process cannot be one of several: {told}",
            "the rank is not below the world size, or MASTER_ADDR is missing",
            "gpulayer launch --procs-per-node N train.py sets them; alone, unset them",
        )
    return World(rank, size, local, here)


def connect(world: World, backend: str | None = None) -> bool:
    """Meet the other processes, if there are any; whether this call did it."""
    if world.size == 1 or dist.is_initialized():
        return False
    if backend == "nccl" and world.device.type != "cuda":
        raise ConfigurationError(
            "NCCL needs GPUs, and this process has none", remedy="gloo, or leave the choice out"
        )
    if world.device.type == "cuda":
        torch.cuda.set_device(world.device)
    chosen = backend or ("nccl" if world.device.type == "cuda" else "gloo")
    dist.init_process_group(chosen, timeout=LIMIT)
    atexit.register(leave)
    return True


def leave() -> None:
    """Leave the others; nothing where that has happened."""
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def processes(accelerator: str = "auto", backend: str | None = None) -> Iterator[World]:
    """For loops of your own: meet the other processes, and leave them at the end.

    Alone, it costs nothing: `with glt.processes() as world: model.to(world.device)`.
    """
    here = world(accelerator)
    ours = connect(here, backend)
    try:
        yield here
    finally:
        if ours:
            leave()


def ddp(model: torch.nn.Module, world: World, **options: Any) -> torch.nn.Module:
    """The module with its gradients averaged over all processes; alone, the module itself."""
    model.to(world.device)
    if world.size == 1 or not any(p.requires_grad for p in model.parameters()):
        return model
    ids = [world.device.index] if world.device.type == "cuda" else None
    with warnings.catch_warnings():
        # Its notice about hooks of modules that were compiled; nothing that a user can act on.
        warnings.simplefilter("ignore", FutureWarning)
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, **options)
