"""What runs in a process before its first call: an executor's `initializer`. It stands before the
arguments of each call, so that a process of one call has it too, and an older one refuses it.

    {"$gpulayer": 1, "initializer": "module:function", "initargs": [WIRE, ...]}
"""

from __future__ import annotations

import importlib

from .limits import KEY, VERSION, Unreadable
from .reading import is_tagged

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable
    from typing import Any


def initializer(name: str, wires: list[Any]) -> dict[str, Any]:
    """The argument that asks for it."""
    return {KEY: VERSION, "initializer": name, "initargs": wires}


class Initialized:
    """Those that this process has called. `module` holds the function of the calls, and is called
    `name` where they were written."""

    def __init__(self, name: str, module: types.ModuleType | None) -> None:
        self._name = name
        self._module = module
        self._done: list[Any] = []

    def rest(self, args: list[Any], read: Callable[[str, Any], Any]) -> list[Any]:
        """The arguments of the call. Before, the initializer that stands before them, unless it
        was called here; raises what it raises, and Unreadable. `read` gives a value by its place
        and its wire."""
        if not args or not is_tagged(args[0]) or "initializer" not in args[0]:
            return args
        said, *others = args
        if said not in self._done:
            wires = said.get("initargs")
            if type(said["initializer"]) is not str or type(wires) is not list:
                raise Unreadable("it is damaged: its initializer has no name or arguments")
            given = [read("initargs[{}]".format(at), wires[at]) for at in range(len(wires))]
            self._find(said["initializer"])(*given)
            self._done.append(said)
        return others

    def _find(self, said: str) -> Any:
        name, _, function = said.partition(":")
        module = self._module if name == self._name else importlib.import_module(name)
        found = getattr(module, function, None)
        if found is None:
            raise ImportError("module '{}' has no function '{}'".format(name, function))
        return found
