"""Number formats: which there are, and whether this device can."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gpulayer.torch.errors import ConfigurationError

NAMES = {
    "32": "32-true", "32-true": "32-true",
    "bf16": "bf16-mixed", "bf16-mixed": "bf16-mixed",
    "16": "16-mixed", "16-mixed": "16-mixed",
}  # fmt: skip
TYPES = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def canonical(precision: str | int | None) -> str:
    """The full name of a precision, or an error that lists them."""
    name = NAMES.get(str("32" if precision is None else precision))
    if name is None:
        raise ConfigurationError(
            f"precision={precision!r} is not known here",
            "the whole module in half or double precision is not there yet",
            "one of 32-true, bf16-mixed, 16-mixed; or model.half() / model.double() yourself",
        )
    return name


def check(name: str, device: torch.device, model: torch.nn.Module | None = None) -> None:
    """Refuse what the device cannot do, before anything is trained."""
    if name == "32-true":
        return
    half = [n for n, p in model.named_parameters() if p.dtype == torch.float16] if model else []
    if name == "16-mixed" and half:
        raise ConfigurationError(
            f"precision='16-mixed' with a module in float16 (parameter {half[0]})",
            "gradients of float16 parameters cannot be unscaled",
            "keep the parameters in float32, or take precision='bf16-mixed'",
        )
    if device.type == "cuda" and name == "bf16-mixed":
        able = torch.cuda.is_bf16_supported(including_emulation=False)
        why = f"{torch.cuda.get_device_name(device)} has no bfloat16"
    else:
        able, why = _tried(name, device)
    if not able:
        other = "16-mixed" if device.type == "cuda" else "32-true"
        raise ConfigurationError(
            f"precision={name!r} is not possible on {device.type}",
            why,
            f"precision={other!r}, or a device that can",
        )


def _tried(name: str, device: torch.device) -> tuple[bool, str]:
    try:
        with autocast(name, device):
            layer = torch.nn.functional.linear
            weight = torch.ones(2, 2, device=device, requires_grad=True)
            layer(torch.ones(1, 2, device=device), weight).sum().backward()
        if name == "16-mixed":
            torch.amp.GradScaler(device.type)
    except (RuntimeError, ValueError, TypeError) as error:
        return False, str(error).splitlines()[0]
    return True, ""


def autocast(precision: str | int, device: torch.device) -> AbstractContextManager[Any]:
    """What a forward pass runs in; with 32-true, nothing."""
    name = canonical(precision)
    if name == "32-true":
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast(device.type, dtype=TYPES[name])
    return context


def scaler(precision: str | int, device: torch.device) -> Any | None:
    """What keeps small gradients of 16-mixed alive; None for the others."""
    return torch.amp.GradScaler(device.type) if canonical(precision) == "16-mixed" else None
