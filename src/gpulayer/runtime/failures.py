"""How a call that raised is told: message, traceback from the user's first line on, causes.

Read by `function_runner` when a call has raised; the standard library alone, Python from 3.8 up.
"""

from __future__ import annotations

import importlib
import linecache
import os
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterator
    from typing import Any

MAX_TRACEBACK = 64 * 1024
MAX_MESSAGE = 16 << 10
MAX_CHAIN = 20
_NOT_THE_USERS = (
    os.path.dirname(os.path.realpath(__file__)),
    os.path.dirname(importlib.__file__ or ""),
)


def described(slug: str, error: BaseException, is_refused: bool) -> dict[str, Any]:
    """Without its arguments. `is_refused`: it is a sentence of ours about a value."""
    kind = type(error)
    return {
        "slug": slug,
        "type": "" if is_refused else kind.__qualname__,
        "module": "" if is_refused or kind.__module__ == "__main__" else kind.__module__,
        "message": _message(error),
        "traceback": "" if is_refused else _traceback(error),
        "chain": [
            {
                "relation": relation,
                "type": type(one).__qualname__,
                "module": type(one).__module__,
                "message": _message(one),
            }
            for relation, one in _chain(error)
        ],
    }


def show(error: BaseException) -> None:
    linecache.checkcache()
    traceback.print_exception(type(error), error, _users(error.__traceback__))


def _chain(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    seen = {id(error)}
    while len(seen) <= MAX_CHAIN:
        relation, below = "cause", error.__cause__
        if below is None and not error.__suppress_context__:
            relation, below = "context", error.__context__
        if below is None or id(below) in seen:
            return
        seen.add(id(below))
        yield relation, below
        error = below


def _message(error: BaseException) -> str:
    try:
        text = str(error)
        if len(text) > MAX_MESSAGE:
            left_out = len(text) - MAX_MESSAGE
            text = "{}... ({} characters left out)".format(text[:MAX_MESSAGE], left_out)
        return text.encode("utf-8", "backslashreplace").decode()
    except Exception:
        return "(its message cannot be shown)"


def _traceback(error: BaseException) -> str:
    text = "".join(traceback.format_exception(type(error), error, _users(error.__traceback__)))
    if len(text) > MAX_TRACEBACK:
        half = MAX_TRACEBACK // 2
        left_out = "\n  ... {} characters left out ...\n".format(len(text) - MAX_TRACEBACK)
        text = text[:half] + left_out + text[-half:]
    return text.encode("utf-8", "backslashreplace").decode()


def _users(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the first frame of the user's own code."""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<frozen importlib") and (
            os.path.dirname(name) not in _NOT_THE_USERS
        ):
            break
        trace = trace.tb_next
    return trace
