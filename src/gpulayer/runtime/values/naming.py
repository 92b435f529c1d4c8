"""Classes by name: those of dataclasses and enums, which are the same code on both sides."""

from __future__ import annotations

import importlib
import sys

from .limits import NotPortable, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: a class that Python code defined."""


class Classes:
    """Names of classes on one side. `module`, if there is one, is called `name` on the other side,
    whatever it is called here: a script is `__main__` only where it was started."""

    def __init__(
        self, name: str = "", module: types.ModuleType | None = None, *, imports: bool = False
    ) -> None:
        self._name = name
        self._module = module
        self._imports = imports
        """Whether a module that is not loaded may be: only where the job runs, since what comes
        from there must not choose code to run here."""

    def name_of(self, kind: type) -> str:
        """`module:Class`, where that leads back to it."""
        module = kind.__module__
        if self._module is not None and module == self._module.__name__:
            module = self._name
        elif module == "__main__":
            raise NotPortable(
                "is of the class {}, which is not in a file".format(kind.__qualname__),
                "move the class to a module",
            )
        name = "{}:{}".format(module, kind.__qualname__)
        try:
            found = self.find(name)
        except Unreadable:
            found = None
        if found is not kind:
            raise NotPortable(
                "is of the class {}, which cannot be found by that name".format(kind.__qualname__),
                "define the class at the top of its module",
            )
        return name

    def find(self, name: Any) -> Any:
        """What a module holds under that name; no code of it runs but its import."""
        if type(name) is not str:
            raise Unreadable("a class has no name")
        module_name, _, path = name.partition(":")
        module: Any = self._module if module_name == self._name else None
        if module is None:
            module = sys.modules.get(module_name)
        if module is None and self._imports and module_name:
            try:
                module = importlib.import_module(module_name)
            except ImportError as error:
                raise Unreadable(
                    "the class {} cannot be imported: {}".format(name, error), module_name
                ) from None
        if module is None:
            raise Unreadable(
                "the class {} is not loaded; import {} before".format(name, module_name),
                module_name,
            )
        found: Any = module
        for part in path.split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        if not isinstance(found, type):
            raise Unreadable("there is no class {} here".format(name), module_name)
        return found


def is_made_of_python(kind: type) -> bool:
    """Whether its instances hold nothing that Python code does not see, as a list would."""
    return all(
        base is object or base.__flags__ & _HEAP_TYPE or base.__name__ in ("Generic", "Protocol")
        for base in kind.__mro__
    )
