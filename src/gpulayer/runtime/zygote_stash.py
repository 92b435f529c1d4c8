"""Modules that were imported ahead, hidden until the user's code imports them.

A finder, first on `sys.meta_path`: at the import of a hidden module of an installed package it
gives all that was imported with it and before, at that of a hidden module of the standard library
what that one refers to. `sys.modules` has then what a fresh import would have put there.
"""

from __future__ import annotations

import atexit
import builtins
import os
import sys

import zygote_imports as imports  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ENDINGS = (".py", ".pyc", ".so")


class Stash:
    """`base`: what a fresh start has too. `given` is called once, before the first module of an
    installed package is given."""

    def __init__(self, base: frozenset[str], given: Callable[[], object]) -> None:
        self._base = base
        self._given: Callable[[], object] | None = given
        self._group: dict[str, int] = {}
        self._count = 0
        self.modules: dict[str, Any] = {}
        """Hidden by now."""
        self._all: dict[str, Any] = {}
        self._edges: dict[str, set[str]] = {}
        """What each module imported."""
        self._import = builtins.__import__

    def register(self) -> None:
        """Before anything is imported: so that what it does at the end is done last."""
        atexit.register(self._let_go)
        builtins.__import__ = self._note_import  # type: ignore[assignment]

    def note(self) -> None:
        """What was imported since the last time belongs together."""
        for name in sys.modules:
            if name not in self._base and name not in self._group and name != "__main__":
                self._group[name] = self._count
        self._count += 1

    def hide(self) -> None:
        builtins.__import__ = self._import
        for name in list(sys.modules):
            if name in self._group:
                self.modules[name] = sys.modules.pop(name)
            elif name not in self._base and name != "__main__":
                del sys.modules[name]  # ours
        self._all = dict(self.modules)
        self._all["itself"] = self._all  # a cycle that is frozen: never taken apart

    def _note_import(
        self, name: str, names: Any = None, local: Any = None, parts: Any = (), level: int = 0
    ) -> Any:
        """`__import__`, which also keeps who imported what."""
        found = self._import(name, names, local, parts, level)
        if names is None or sys._getframe(1).f_code.co_name != "<module>":
            return found  # a function may not be called again
        base = name
        if level:
            package = (names.get("__package__") or "").rsplit(".", level - 1)[0]
            base = package + "." + name if name else package
        edges = self._edges.setdefault(names.get("__name__", ""), set())
        edges.add(base)
        edges.update(base + "." + part for part in parts or ())
        return found

    def is_shadowed(self, folder: str) -> bool:
        """Whether a file of this folder would be imported in the place of a hidden module."""
        tops = {name.partition(".")[0] for name in self.modules}
        try:
            found = os.listdir(folder)
        except OSError:
            return True
        for name in found:
            stem = name.partition(".")[0]
            if stem not in tops:
                continue
            if name.endswith(_ENDINGS) or os.path.isdir(os.path.join(folder, name)):
                return True
        return False

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """As importlib wants it of a finder."""
        module = self.modules.get(name)
        if module is None or sys._getframe(2).f_code.co_name != "_find_and_load_unlocked":
            return None  # whoever only asks where it is hears it of the others
        if self._is_installed(name):
            if self._given is not None:
                given, self._given = self._given, None
                given()
            group = self._group[name]
            wanted = {one for one in self.modules if self._group[one] <= group}
        else:
            wanted = self._closure(name)
        for one in [one for one in self.modules if one in wanted]:
            hidden = self.modules.pop(one)
            if one != name:
                sys.modules.setdefault(one, hidden)
        if not self.modules:
            sys.meta_path.remove(self)
        own = getattr(module, "__spec__", None)
        make: Any = type(sys.__spec__)
        return make(name, _Given(module, own), is_package=hasattr(module, "__path__"))

    def _is_installed(self, name: str) -> bool:
        top = name.partition(".")[0]
        path = getattr(self._all.get(top) or sys.modules.get(top), "__file__", None)
        return path is not None and not imports.is_standard(path)

    def _closure(self, name: str) -> set[str]:
        found = {name}
        waiting = [name]
        while waiting:
            at = waiting.pop()
            for other in self._edges.get(at, set()) | {at.rpartition(".")[0]}:
                if other in found:
                    continue
                if other in self.modules and not self._is_installed(other):
                    found.add(other)
                    waiting.append(other)
        return found

    def _let_go(self) -> None:
        """At the end: what was imported ahead is not taken apart, which takes most of the time."""
        for name, module in self._all.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


class _Given:
    """The loader of one module that is there already."""

    def __init__(self, module: Any, spec: Any) -> None:
        self._module = module
        self._spec = spec

    def create_module(self, spec: Any) -> Any:
        return self._module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self._spec
