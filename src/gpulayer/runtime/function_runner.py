"""Calls one function where a job runs: `PY function_runner.py CALL.json RESULT.json`.

One file (it is run by its path), the standard library alone, any Python from 3.8 up: the
workload's interpreter needs nothing of GPUlayer. The function's module is imported by its own
name, so what stands under `if __name__ == "__main__"` does not run. Standard output and error are
the job's own. That it is one file makes it longer than others.

    call    {module, function, file?, source?, sys_path, args, kwargs, stand_in, result_bytes}
            result_bytes: a longer one goes to a file among the outputs
    result  {"value": ...} | {"exit": code} | {"error": {slug, type, module, message, traceback,
            chain, args?}}

Exit codes: 0 returned, 1 raised or returned what cannot travel, 127 not importable, that of
`sys.exit`, and death by SIGINT after a KeyboardInterrupt, as Python itself does.
"""

from __future__ import annotations

import ast
import codecs
import importlib
import importlib.util
import json
import linecache  # noqa: F401  before a script can take its name
import math
import os
import signal
import sys
import traceback  # noqa: F401  the same
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MAX_DEPTH, MAX_INT_BITS = 50, 14_000
_PLAIN_PARTS = 10_000
"""What is deeper, longer or larger is left to the package `values`."""

_FOLDERS = "GPULAYER_INPUT_DIR", "GPULAYER_OUTPUT_DIR"
_PACKAGE, _REPORTING, _TAGGED = "_gpulayer_values", "_gpulayer_reporting", "$gpulayer"

MAX_MESSAGE = 16 << 10
_FAILED, _NOT_FOUND = 1, 127
_TAKEN = frozenset(sys.modules) | frozenset(getattr(sys, "stdlib_module_names", ()))
"""Names that a script's module must not take, or the standard library would find the script."""

_values: dict[str, tuple[Any, Any]] = {}
"""By the name of a module: it, and the values of its calls."""

is_importing = False
"""Whether the function's module is being imported: `sdk.client` then submits nothing. A script
without `if __name__ == "__main__"` would else start itself again in each of its jobs, for ever."""


class NotPlain(Exception):
    """A value that would not come back the same, or that cannot be read here."""

    def __init__(self, slug: str, message: str) -> None:
        super().__init__(message)
        self.slug = slug


def main() -> None:
    call_path, result_path = sys.argv[1:3]
    with open(call_path, encoding="ascii") as file:
        call = json.load(file)
    _prepare(call)
    folder = os.path.dirname(os.path.abspath(call_path))
    if "elements" in call:
        calls = _loop_of_calls()
        calls.call_all(call, result_path, lambda: _imported(call, folder), _called, _exit_code)
        sys.exit(0)
    try:
        function, text = _imported(call, folder)
        code = _NOT_FOUND
        if function is not None:
            code, text = _called(function, call, result_path)
    except KeyboardInterrupt as stop:
        _print_error(stop)
        _die_of_interrupt()
    except SystemExit as stop:
        _write(result_path, json.dumps({"exit": _exit_code(stop)}))
        raise
    _write(result_path, text)
    sys.exit(code)


def load() -> None:
    """All that a call may need besides. For a process that many calls are forked from."""
    _loop_of_calls()
    _package()
    _failures()
    codecs.lookup("ascii")  # a module of its own


def _imported(call: dict[str, Any], folder: str) -> tuple[Callable[..., Any] | None, str]:
    """The function; or None, and why there is none as the result's JSON."""
    global is_importing
    is_importing, why = True, "function-not-importable"
    try:
        found = _find(call, folder)
    except KeyboardInterrupt:
        raise
    except SystemExit:
        text = "the module ended the process while it was imported"
        return None, _failure(why, ImportError(text))
    except BaseException as error:
        return None, _failure(why, error)
    is_importing = False
    return found, ""


def _called(function: Callable[..., Any], call: dict[str, Any], path: str) -> tuple[int, str]:
    """Exit code, and the result's JSON."""
    inputs, outputs = (os.environ.get(name, "") for name in _FOLDERS)
    try:
        args, kwargs = _arguments(call, inputs)
        value = function(*args, **kwargs)
        return 0, '{"value":' + _result(value, call, outputs, path) + "}"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        slug = error.slug if isinstance(error, NotPlain) else "exception"
        code = _NOT_FOUND if slug == "function-not-importable" else _FAILED
        return code, _failure(slug, error)


# --- finding the function -------------------------------------------------------------------


def _prepare(call: dict[str, Any]) -> None:
    own = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == own:
        del sys.path[0]
    sys.path[:0] = call["sys_path"]
    sys.argv[:] = [call.get("file") or call["module"]]
    if call.get("stand_in") and not _has_gpulayer():
        stand_in = _StandIn("gpulayer")
        stand_in.__file__ = "a stand-in: gpulayer is not installed for this Python"
        sys.modules["gpulayer"] = stand_in


def _has_gpulayer() -> bool:
    if sys.version_info < (3, 11):
        return False  # it may be found there, and would not import
    try:
        return importlib.util.find_spec("gpulayer") is not None
    except (ImportError, ValueError):
        return False


def _find(call: dict[str, Any], folder: str) -> Callable[..., Any]:
    name = call["module"]
    if call.get("source"):
        module = _from_source(name, call["source"], os.path.join(folder, "work"))
    elif call.get("file"):
        module = _from_file("gpulayer_script" if name in _TAKEN else name, call["file"])
    else:
        module = importlib.import_module(name)
    found = getattr(module, call["function"], None)
    if found is None:
        raise ImportError("module '{}' has no function '{}'".format(name, call["function"]))
    if type(found).__module__.split(".")[0] == "gpulayer":
        found = getattr(found, "__wrapped__", found)  # decorated with the real `gl.remote`
    if not callable(found):
        kind = _kind(type(found))
        raise ImportError("'{}:{}' is a {}".format(name, call["function"], kind))
    return found  # type: ignore[no-any-return]


def _from_file(name: str, path: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("'{}' is not a Python file".format(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _from_source(name: str, source: str, folder: str) -> types.ModuleType:
    """A notebook's function: its own text, in a file so that tracebacks can show it. The folder
    is removed with the job."""
    source = _without_remote(source)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    return _from_file(name, path)


def _without_remote(source: str) -> str:
    """The text without the decorator that made the function remote; lines keep their numbers."""
    lines = source.split("\n")
    for node in ast.parse(source).body:
        for decorator in getattr(node, "decorator_list", ()):
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if getattr(target, "attr", getattr(target, "id", None)) == "remote":
                last = decorator.end_lineno or decorator.lineno
                lines[decorator.lineno - 1 : last] = [""] * (last - decorator.lineno + 1)
    return "\n".join(lines)


class _StandIn(types.ModuleType):
    """What `import gpulayer` gives where it is not installed: the decorator, as the identity, and
    `report`."""

    __version__ = "0"
    __path__: list[str] = []  # submodules are looked for and not found

    @staticmethod
    def remote(function: Any = None, **_: Any) -> Any:
        """`@gl.remote` and `@gl.remote(...)`: the function as it is."""
        return function if function is not None else lambda given: given

    @staticmethod
    def report(*values: Any, **named: Any) -> None:
        """`gl.report`, which needs nothing but the standard library."""
        _beside("reporting.py", _REPORTING).report(*values, **named)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            "gpulayer is not installed in {}, where this job runs: of it only 'remote' and "
            "'report' can be used, not '{}'".format(sys.executable, name)
        )


# --- values ---------------------------------------------------------------------------------


def _arguments(call: dict[str, Any], inputs: str) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = call["args"], call["kwargs"]
    if not any(type(one) is dict and _TAGGED in one for one in [*args, *kwargs.values()]):
        return args, kwargs
    package = _package()
    try:
        return _of_task(call).arguments(args, kwargs, inputs)  # type: ignore[no-any-return]
    except package.Refused as error:
        raise NotPlain(error.slug, str(error)) from None


def _result(value: Any, call: dict[str, Any], outputs: str, path: str) -> str:
    """The JSON text of it, or of what stands for it. Raises NotPlain."""
    inline = call.get("result_bytes") or 1 << 20
    if _is_plain(value, [_PLAIN_PARTS], 0):
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
        if len(text) <= inline:
            return text
    package, prefix = _package(), os.path.basename(path).partition(".")[0] + "-"
    try:
        return _of_task(call).result(value, outputs, prefix, inline)  # type: ignore[no-any-return]
    except package.Refused as error:
        raise NotPlain(error.slug, str(error)) from None


def _of_task(call: dict[str, Any]) -> Any:
    name = call["module"]
    loaded = sys.modules.get("gpulayer_script" if call.get("file") and name in _TAKEN else name)
    if _values.get(name, (None, None))[0] is not loaded:
        _values[name] = loaded, _package().TaskValues(name, loaded)
    return _values[name][1]


def _package() -> Any:
    """The package `values` beside this file, which is read when a value needs more than JSON."""
    _beside(os.path.join("values", "__init__.py"), _PACKAGE, ["values"])
    return importlib.import_module(_PACKAGE + ".task")


def _loop_of_calls() -> Any:
    _beside("element_loop.py", "_gpulayer_element_loop")
    return _beside("element_calls.py", "_gpulayer_element_calls")


def _beside(path: str, name: str, inner: Sequence[str] = ()) -> Any:
    """A module of this folder, under a name that takes nobody's place."""
    if name in sys.modules:
        return sys.modules[name]
    here = os.path.dirname(os.path.realpath(__file__))
    folders = [os.path.join(here, folder) for folder in inner] or None
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(here, path), submodule_search_locations=folders
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_plain(value: Any, left: list[int], depth: int) -> bool:
    """Whether it is small and JSON says all of it."""
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is int:
        return value.bit_length() <= MAX_INT_BITS  # type: ignore[no-any-return]
    if kind is float:
        return math.isfinite(value)
    if kind is str:
        left[0] -= len(value) >> 3
        return left[0] >= 0 and _is_text(value)
    if (kind is not list and kind is not dict) or depth >= MAX_DEPTH or _TAGGED in value:
        return False
    left[0] -= len(value)
    if left[0] < 0:
        return False
    if kind is dict:
        if not all(type(key) is str and _is_text(key) for key in value):
            return False
        value = value.values()
    return all(_is_plain(item, left, depth + 1) for item in value)


def _is_text(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _kind(kind: type) -> str:
    if kind.__module__ == "builtins":
        return kind.__name__
    return "{}.{}".format(kind.__module__, kind.__qualname__)


# --- ends -----------------------------------------------------------------------------------


def _failure(slug: str, error: BaseException) -> str:
    """The result's JSON of a call that raised; what it raised is printed."""
    failures = _failures()
    is_refused = isinstance(error, NotPlain)
    described = failures.described(slug, error, is_refused)
    if not is_refused and _is_small(list(error.args)):
        described["args"] = list(error.args)
    _print_error(error)
    return json.dumps({"error": described})


def _print_error(error: BaseException) -> None:
    if isinstance(error, NotPlain):
        sys.stderr.write("error[{}]: {}\n".format(error.slug, error))
    else:
        _failures().show(error)


def _failures() -> Any:
    return _beside("failures.py", "_gpulayer_failures")


def _is_small(args: list[Any]) -> bool:
    return _is_plain(args, [_PLAIN_PARTS], 0) and len(json.dumps(args)) <= MAX_MESSAGE


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    return stop.code & 0xFF if isinstance(stop.code, int) else _FAILED


def _die_of_interrupt() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # nobody reads it any more
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _write(path: str, text: str) -> None:
    """All or nothing."""
    draft = path + ".part"
    with open(draft, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(draft, path)


if __name__ == "__main__":
    main()
