"""`Trainer(compile=...)`: the module's arithmetic compiled in place, its logging left outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gpulayer.torch.errors import ConfigurationError
from gpulayer.torch.module import Module


def compiled(model: Module, how: bool | Mapping[str, Any]) -> None:
    """Let the module's `forward` (where it has one) and its parts be compiled when first called.

    In place, as by `part.compile()`, which passes over torch's own modules: the names in
    `state_dict` stay as they are. `how` is what `torch.compile` takes.
    """
    if how is False:
        return
    options = {} if how is True else dict(how)
    parts = list(model.children())
    if type(model).forward is not Module.forward:
        parts = [model]
    for part in parts:
        try:
            part._compiled_call_impl = torch.compile(_call(part), **options)
        except (TypeError, RuntimeError) as error:
            raise ConfigurationError(
                f"compile={how!r} is not possible",
                str(error).splitlines()[0],
                "compile=True, or a dict of what torch.compile takes",
            ) from error


def _call(part: torch.nn.Module) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return part._call_impl(*args, **kwargs)

    # Code of its own: torch compiles one code object a few times, and then no more.
    call.__code__ = call.__code__.replace()
    return call
