"""Why there is no GPU, in one kind sentence: for `gpulayer gpus`, `doctor` and `no-gpu`."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayer.gpu import nvidia
from gpulayer.gpu.machine import Machine

STILL = "CPU jobs work."


def no_driver(machine: Machine) -> str:
    """For a machine on which no driver showed a sign of life."""
    if machine.platform != "linux":
        return f"no GPU found on this machine. {STILL}"
    asked_none = machine.environ.get("NVIDIA_VISIBLE_DEVICES", "").strip()
    if asked_none in ("void", "none"):
        return (
            f"this container was started without GPUs (NVIDIA_VISIBLE_DEVICES={asked_none}). "
            f"{STILL}"
        )
    seen = nvidia.cards_on_the_bus(machine)
    if seen:
        cards = "an NVIDIA card is" if seen == 1 else f"{seen} NVIDIA cards are"
        return f"{cards} in this machine, but no NVIDIA driver is loaded. {STILL}"
    return f"no GPU found on this machine (nvidia-smi: not installed). {STILL}"


def hidden(variable: str, value: str) -> str:
    """For devices that exist, and that the operator keeps from this worker."""
    return (
        f"all GPUs of this machine are hidden from GPUlayer by {variable}={value!r}. {STILL} "
        "Unset it and run `gpulayer stop` to use them"
    )


def no_answer(notes: Sequence[str]) -> str:
    """For drivers that were asked and gave no device."""
    return f"no GPU found on this machine ({'; '.join(notes) or 'the driver lists none'}). {STILL}"
