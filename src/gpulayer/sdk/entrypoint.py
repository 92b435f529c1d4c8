"""From a Python function to the name by which it can be imported where it runs.

A remote function is imported from its own file's folder or package, so what cannot be found that
way is refused where it is written: lambdas, nested functions, methods, functions without a file.
Functions of a notebook or of an interactive session have no file: their source travels instead.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from gpulayer.errors import UsageError
from gpulayer.sdk.folder import working_folder


@dataclass(frozen=True, slots=True)
class Entrypoint:
    """How the runner finds a function."""

    name: str
    """`module:function`."""
    file: str | None
    """The module's file, when it is imported by file."""
    sys_path: tuple[str, ...]
    """The folder from which `module` is importable."""
    source: str | None = None
    """The function's own text, where there is no file."""
    module: str | None = None
    """What is imported, where the name may not say so: the `__main__` of a package."""

    def origin(self) -> dict[str, Any]:
        """The part of a submission's origin that the runner reads; empty values left out."""
        found = {
            "file": self.file,
            "sys_path": list(self.sys_path),
            "source": self.source,
            "module": self.module,
        }
        return {key: value for key, value in found.items() if value}


def entrypoint_of(function: Callable[..., Any]) -> Entrypoint:
    """The entrypoint of a function of a module. Raises `function-not-importable`."""
    if isinstance(function, BuiltinFunctionType) and isinstance(function.__self__, ModuleType):
        name = f"{function.__self__.__name__}:{function.__name__}"
        return Entrypoint(name, None, ())  # of Python itself, or of what is installed there too
    if isinstance(function, type) and function.__module__ == "builtins":
        return Entrypoint(f"builtins:{function.__qualname__}", None, ())  # map(str, ...) is usual
    if not isinstance(function, FunctionType):
        raise _refused(function, "it is not a plain function", "wrap it in a def")
    name = function.__qualname__
    if name == "<lambda>":
        raise _refused(function, "a lambda has no name to import", "give it a name with def")
    if "<locals>" in name:
        raise _refused(function, "it is defined inside another function", "move it to the module")
    if "." in name:
        raise _refused(function, "it belongs to a class", "move it to the module")
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if function.__module__ == "__main__" or module is None:
        return _of_main(function, file)
    if file is None:
        raise _refused(function, "its module has no file", "move it to a file")
    return _of_module(module.__name__, name, file)


def _of_module(module: str, function: str, file: str) -> Entrypoint:
    root = (_root(module, os.path.abspath(file)),)
    package, _, last = module.rpartition(".")
    if last == "__main__":  # python -m package
        return Entrypoint(f"{package}:{function}", None, root, module=module)
    return Entrypoint(f"{module}:{function}", None, root)


def _of_main(function: FunctionType, file: str | None) -> Entrypoint:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.origin and file is not None:  # python -m package.module
        return _of_module(spec.name, function.__name__, file)
    if file is not None and os.path.isfile(file) and not _is_notebook():
        path = os.path.abspath(file)
        stem = os.path.splitext(os.path.basename(path))[0]
        module_name = stem if stem.isidentifier() else "gpulayer_script"
        return Entrypoint(f"{module_name}:{function.__name__}", path, (os.path.dirname(path),))
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        raise _refused(function, "its source cannot be read", "put it into a file") from None
    return Entrypoint(
        f"gpulayer_cell:{function.__name__}", None, (working_folder(),), inspect.cleandoc(source)
    )


def _is_notebook() -> bool:
    return "ipykernel" in sys.modules and hasattr(sys.modules["__main__"], "get_ipython")


def _root(module: str, file: str) -> str:
    """The folder that must be on sys.path for `module` to be importable from `file`."""
    folder = os.path.dirname(os.path.abspath(file))
    depth = module.count(".") + (os.path.basename(file) == "__init__.py")
    for _ in range(depth):
        folder = os.path.dirname(folder)
    return folder


def _refused(function: Any, why: str, mend: str) -> UsageError:
    name = getattr(function, "__qualname__", repr(function))
    code = getattr(function, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    return UsageError(
        "function-not-importable",
        f"'{name}' cannot be found by name where it would run",
        where=where,
        why=f"{why}: {mend}",
        hint="gpulayer help function-not-importable",
    )
