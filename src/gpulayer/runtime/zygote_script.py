"""A template for `python FILE` and `python -m MODULE`: nothing of ours below the user's code.

    PYTHON [-u -O -B] -m zygote        with PYTHONPATH leading to `zygote_site`

The interpreter's own C code runs the script, so that tracebacks, SystemExit, SIGINT and the end of
the process are its own. It asks a module `runpy` for what to call, and finds ours, which serves
before it answers: in a forked child the answer is a callable of C parts alone that runs the user's
code. What was imported ahead is hidden until the user imports it: `zygote_stash`.

The gate says {argv, environ, path, ignored, script}; `script` is {at, module, files}: which word
names it, whether as a module, and what its files were when they were read. Whatever is not sure is
executed cold in the child, before the first line of the user's.
"""

from __future__ import annotations

import _collections  # type: ignore[import-not-found]
import _functools  # type: ignore[import-not-found]
import _signal  # type: ignore[import-not-found]
import os
import sys
import types

import zygote  # type: ignore[import-not-found]
import zygote_imports as imports  # type: ignore[import-not-found]
import zygote_stash  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CUSTOM = ("sitecustomize", "usercustomize")


def take_over(before: frozenset[str]) -> None:
    """In the site phase: what the interpreter will ask for is ours. `before` were there before."""
    ours = frozenset(sys.modules) - before
    sys.modules["runpy"] = _Runpy(ours)  # type: ignore[assignment]


class _Runpy:
    """In the place of `runpy`. `ours` are the modules that a fresh start would not have."""

    def __init__(self, ours: frozenset[str]) -> None:
        self._ours = ours

    @property
    def _run_module_as_main(self) -> Any:
        """Returns in the child of a call."""
        Scripts.base = frozenset(sys.modules) - self._ours - {"runpy"}
        template, fds = zygote.serve(Scripts)
        return template.program(fds)


class Scripts(zygote.Template):  # type: ignore[misc]
    """What is settled before the first fork, for scripts."""

    base: frozenset[str]
    """The modules of a fresh start."""

    def _begin(self) -> None:
        if sys.version_info < (3, 9):
            raise imports.Unsafe("this Python is older than 3.9")
        for name in _CUSTOM:
            path = getattr(sys.modules.get(name), "__file__", None)
            if path and os.path.dirname(path) != os.path.dirname(os.__file__):  # Debian's is there
                raise imports.Unsafe("this Python runs a {} of its own".format(name))
        self._safe = bool(getattr(sys.flags, "safe_path", False))
        if not self._safe:
            del sys.path[0]  # the folder; a script has its own there
        self._first = dict(vars(sys.modules["__main__"]))
        self._state = imports.State()
        self._stash = zygote_stash.Stash(self.base, self._given)
        self._stash.register()
        import ctypes

        self._libc = ctypes.CDLL(None)
        self._exit = ctypes.cast(self._libc._exit, ctypes.c_void_p)
        self._flush = ctypes.cast(self._libc.fflush, ctypes.c_void_p)
        for name in frozenset(sys.modules) - self.base:
            del sys.modules[name]  # what is imported ahead loads its own

    def _imported(self, name: str) -> None:
        self._stash.note()

    def _end(self) -> None:
        self._filters = self._state.look()
        self._stash.hide()

    def _reseed(self) -> None:
        imports.reseed(self._stash.modules)

    def _given(self) -> None:
        """In the child, as the user imports the first of what was imported ahead."""
        self._count_threads()
        self._apply_changes()
        self._state.give(self._filters)

    def _settle(self, call: dict[str, Any], argv: list[str]) -> None:
        self._call = call
        self._argv = argv

    def program(self, fds: list[int]) -> Any:
        """In the child: what the interpreter shall call."""
        self.become(fds)
        try:
            return self._program(self._call["script"], self._argv)
        except Exception:
            self._cold()

    def _program(self, script: dict[str, Any], argv: list[str]) -> Any:
        """Raises where it is not sure."""
        at = script["at"]
        word = argv[at]
        folder = os.getcwd() if script["module"] else os.path.dirname(os.path.realpath(word))
        if any(imports.identity_text(path) != told for path, told in script["files"]):
            raise imports.Unsafe("a file of it has changed")
        if not self._safe and self._stash.is_shadowed(folder):
            raise imports.Unsafe("a file beside it has the name of a module")
        names = self._fresh_main()
        if self._stash.modules:
            sys.meta_path.insert(0, self._stash)
        if script["module"]:
            run = self._of_module(word)
            sys.argv[:] = ["-m", *argv[at + 1 :]]
        else:
            run = self._of_file(word, names)
            sys.argv[:] = argv[at:]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = argv
        if not self._safe:
            sys.path.insert(0, folder)
        if hasattr(self._libc, "on_exit"):  # what the user loads from here on still ends by itself
            self._libc.on_exit(self._exit, None)
            self._libc["__cxa_atexit"](self._flush, None, None)
        return _callable(run, None if script["module"] else names)

    def _of_module(self, name: str) -> Any:
        import runpy

        return _functools.partial(vars(runpy)["_run_module_as_main"], name, True)

    def _of_file(self, word: str, names: dict[str, Any]) -> Any:
        """As the interpreter does it of a file (pythonrun.c)."""
        path = word if word[:1] == "/" else os.getcwd() + "/" + word
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        loader = sys.modules["_frozen_importlib_external"].SourceFileLoader("__main__", path)
        names.update(__loader__=loader, __file__=path)
        if sys.version_info < (3, 15):
            names["__cached__"] = None
        return _functools.partial(exec, code, names)

    def _fresh_main(self) -> dict[str, Any]:
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        names = vars(main)
        for name, value in self._first.items():
            names[name] = {} if name == "__annotations__" else value
        return names

    def _cold(self) -> None:
        """The same program from its start; nothing of the user's has run."""
        for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
            if number not in self._call["ignored"]:
                _signal.signal(number, _signal.SIG_DFL)
        argv = [os.fsencode(word) for word in self._argv]
        os.execve(self._call["path"], argv, dict(self._call["environ"]))


def _callable(run: Any, names: dict[str, Any] | None) -> Any:
    """What calls `run` with no frame of Python's, whatever two arguments it is given: `max` asks
    the key of each; the dictionary does not know the first and asks `run`, and has the second."""

    class Last:
        def __gt__(self, other: object) -> bool:
            """The code came to its end."""
            if names is not None:
                names.pop("__file__", None)
                names.pop("__cached__", None)
            return False

        def __del__(self) -> None:
            """After the code, before its error is shown: what the interpreter does of a file."""
            if names is not None:
                for stream in (sys.stderr, sys.stdout):
                    try:
                        stream.flush()
                    except Exception:
                        pass

    answers = _collections.defaultdict(run, {1: Last()})  # C says that argv[0] is to be set
    return _functools.partial(max, key=answers.__getitem__)
