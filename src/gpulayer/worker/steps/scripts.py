"""Which `python FILE` or `python -m MODULE` may be forked from a Python that has imported.

Only one whose text, and that of its own modules, names a package that takes long to import, and
does nothing that an import ahead of it would miss: sets a variable, goes before the installed
packages on `sys.path`, takes the place of an import. What is not sure starts cold.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gpulayer.runtime.zygote_imports import identity_text

HEAVY = frozenset((
    "cv2", "jax", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "torch",
    "torchaudio", "torchvision", "transformers",
))  # fmt: skip
"""Packages that are known to import alike in a template, or to be refused by it."""
FLAGS = frozenset("uOB")
"""Of the interpreter, which a template is started with as well."""
MOST_FILES, MOST_BYTES = 100, 512 << 10
"""Of a script and its own modules; one with more starts cold."""

_CHANGES = frozenset(("update", "setdefault", "pop", "popitem", "clear", "insert", "remove"))
_PATHS = frozenset(("append", "extend"))
_WORDS = frozenset(("putenv", "unsetenv", "meta_path", "path_hooks", "path_importer_cache"))


@dataclass(frozen=True, slots=True)
class Script:
    """Words of a command that `python` runs."""

    flags: tuple[str, ...]
    at: int
    """Which word names the file or the module."""
    is_module: bool


@dataclass(frozen=True, slots=True)
class Imports:
    """What it imports of `HEAVY`, in its order, and its files as they were read."""

    heavy: tuple[str, ...]
    files: tuple[tuple[str, str], ...]


class _Unsure(Exception):
    """It may do what an import ahead of it would miss."""


def script_in(argv: list[str]) -> Script | None:
    """None where it is no plain `python [-uOB] FILE` or `python [-uOB] -m MODULE`."""
    at = 1
    while at < len(argv) and argv[at][:1] == "-" and argv[at] != "-m":
        if len(argv[at]) < 2 or not FLAGS.issuperset(argv[at][1:]):
            return None
        at += 1
    is_module = at < len(argv) and argv[at] == "-m"
    named = at + is_module
    if named >= len(argv) or not argv[named] or argv[named][0] == "-":
        return None
    return Script(tuple(argv[1:at]), named, is_module)


def imports_of(word: str, folder: str, *, is_module: bool) -> Imports | None:
    """Of the script that `word` names in `folder`; None where that is not sure."""
    if is_module:
        found = _file_of(folder, word.split("."))
        above = _inits(folder, word.split("."))
        paths = [*above, *([found] if found else [])]
        if found and os.path.basename(found) == "__init__.py":
            paths.append(os.path.join(os.path.dirname(found), "__main__.py"))
        root = folder
    else:
        path = os.path.join(folder, word)
        found, paths = path, [path]
        root = os.path.dirname(os.path.realpath(path))
    if not found:
        return None
    try:
        return _all_of(root, paths)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, _Unsure):
        return None  # cold, where Python says what is wrong with it


def _all_of(root: str, paths: list[str]) -> Imports:
    heavy: dict[str, None] = {}
    files: dict[str, str] = {}
    total = 0
    while paths:
        path = paths.pop(0)
        if path in files:
            continue
        files[path] = told = identity_text(path)
        total += os.path.getsize(path)
        if len(files) > MOST_FILES or total > MOST_BYTES:
            raise _Unsure
        for name in _read(path, told):
            if name.split(".")[0] in HEAVY:
                heavy[name] = None
                continue
            base = os.path.dirname(path) if name.startswith(".") else root
            parts = name.lstrip(".").split(".")
            for _ in range(len(name) - len(name.lstrip(".")) - 1):
                base = os.path.dirname(base)
            found = _file_of(base, parts)
            paths += [*_inits(base, parts), *([found] if found else [])]
    return Imports(tuple(heavy), tuple(files.items()))


@lru_cache(maxsize=512)
def _read(path: str, told: str) -> tuple[str, ...]:
    """The modules that a file imports, dotted, those of its own package with a dot for each level.
    `told` is its identity: another one is read anew."""
    with open(path, "rb") as file:
        data = file.read(MOST_BYTES)
    found: dict[tuple[int, str], None] = {}
    for node in ast.walk(ast.parse(data)):
        _require_sure(node)
        for name in _names(node):
            found[getattr(node, "lineno", 0), name] = None
    return tuple(name for _, name in sorted(found))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        if node.module:
            yield base
        if (node.module or "").split(".")[0] not in HEAVY:  # else what it names may be no module
            dot = "." if node.module else ""
            yield from (base + dot + alias.name for alias in node.names if alias.name != "*")


def _require_sure(node: ast.AST) -> None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        on = _last_name(node.func.value)
        if on == "environ" and node.func.attr in _CHANGES:
            raise _Unsure
        if on == "path" and _is_sys(node.func.value) and node.func.attr not in _PATHS:
            raise _Unsure
    if isinstance(node, ast.Attribute | ast.Subscript | ast.Name):
        is_set = not isinstance(node.ctx, ast.Load)
        of = node.value if isinstance(node, ast.Subscript) else node
        if is_set and (_last_name(of) == "environ" or _is_sys(of)):
            raise _Unsure
    if isinstance(node, ast.Name | ast.Attribute) and _last_name(node) in _WORDS:
        raise _Unsure
    if isinstance(node, ast.alias) and (node.name in _WORDS or node.name == "site"):
        raise _Unsure


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_sys(node: ast.AST) -> bool:
    """`sys.path`, `sys.modules`, and their like."""
    on = node.value if isinstance(node, ast.Attribute) else None
    return on is not None and _last_name(on) == "sys" and _last_name(node) in ("path", "modules")


def _file_of(folder: str, parts: list[str]) -> str | None:
    stem = os.path.join(folder, *parts)
    for path in (os.path.join(stem, "__init__.py"), stem + ".py"):
        if os.path.isfile(path):
            return path
    return None


def _inits(folder: str, parts: list[str]) -> list[str]:
    above = (os.path.join(folder, *parts[:n], "__init__.py") for n in range(1, len(parts)))
    return [path for path in above if os.path.isfile(path)]
