"""What the trainer refuses, and why: what happened, why, and what to do."""

from __future__ import annotations


class TrainingError(RuntimeError):
    """A run that cannot start or go on. The text has up to three lines: what, why, help."""

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        lines = [what]
        if why:
            lines.append(f"  why: {why}")
        if remedy:
            lines.append(f"  help: {remedy}")
        super().__init__("\n".join(lines))


class ConfigurationError(TrainingError, ValueError):
    """An option, a module or a loader that cannot be used. Nothing has been trained yet."""


class CheckpointError(TrainingError):
    """A checkpoint that cannot be written, read or believed."""
