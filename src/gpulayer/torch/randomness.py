"""Seeds, and the state of every generator that a training step may draw from."""

from __future__ import annotations

import hashlib
import random
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

CPU = torch.device("cpu")


def seed_everything(seed: int | None = None, workers: bool = True, verbose: bool = False) -> int:
    """Seed Python, numpy (where it is loaded) and torch on all devices; the seed used is returned.

    `workers` and `verbose` are accepted so that a call written for Lightning works; the workers
    of a loader that the Trainer runs are always seeded.
    """
    if seed is None:
        seed = secrets.randbits(31)
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    return seed


def derive(*parts: object) -> int:
    """A seed of 63 bits that depends on all the parts and on nothing else."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def capture(device: torch.device = CPU) -> dict[str, Any]:
    """The state of Python's, numpy's and torch's generators, as plain values."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        state["numpy"] = (kind, [int(key) for key in keys], *rest)
    if device.type in ("cuda", "mps"):
        state[device.type] = getattr(torch, device.type).get_rng_state()
    return state


def restore(state: dict[str, Any], device: torch.device = CPU) -> None:
    """Set the generators as `capture` found them."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(state["torch"].cpu())
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        kind, keys, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype="uint32"), *rest))
    if device.type in state:
        getattr(torch, device.type).set_rng_state(state[device.type].cpu())


@contextmanager
def isolated(seed: int | None = None, device: torch.device = CPU) -> Iterator[None]:
    """What is drawn inside leaves no trace outside; with a seed, it is always the same."""
    before = capture(device)
    try:
        if seed is not None:
            seed_everything(seed)
        yield
    finally:
        restore(before, device)
