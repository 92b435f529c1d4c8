"""Functions for maps. What they import is little, since each element of a cold job imports it."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import gpulayer as gl


@gl.remote
def pair(*values: Any) -> Any:
    return values


@gl.remote
def given(value: Any) -> Any:
    if value == "raise":
        raise ValueError("a bad item")
    if value == "exit":
        sys.exit(7)
    if value == "die":
        print("its last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return {"nan": float("nan"), "type": object}.get(value, value)


@gl.remote
def opened(fifo: str) -> str:
    """Waits until somebody writes into it."""
    if not fifo:
        return "at once"
    with open(fifo) as file:
        return file.read()


def named(**values: Any) -> Any:
    """Not decorated: an executor takes it as it is."""
    return values


ready: list[Any] = []


def prepare(*values: Any) -> None:
    """An initializer, of which it can be seen how often a process called it."""
    if values == ("raise",):
        raise LookupError("no such set of data")
    ready.append(values)


def prepared(_: Any = None) -> Any:
    return os.getpid(), list(ready)
