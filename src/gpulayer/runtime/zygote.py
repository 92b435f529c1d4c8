"""A template Python process: it has imported what calls need, and forks one child per call.

    PYTHON zygote.py        standard input: a socket to the supervisor, output: a file kept empty

Run by its path, the standard library alone, any Python from 3.8 up. Messages stand behind their
length in four bytes: down a `marshal`ed object, up a word and a text.

    down  {environ, preload, sys_path, runner}            once: what it shall be
    up    ready BYTES | refused WHY
    down  {} + [leaf]                                     of the next call
    down  {} + [stdin, stdout, stderr, folder, gate]      the call
    up    pid PID | stale WHY                             `stale`: it must not be used any more

The child of a call is forked before the call comes, since that takes longest: a spare, which reads
the socket in the template's place. It is forked twice, so that it becomes its supervisor's own
child (a subreaper), and enters the call's leaf, which takes long as well. With a call it answers.
At the gate, a socket, it is told {argv, environ}, and runs nothing of the user's before; a gate
that closes ends it. So nothing of a call ever reaches the template. At the end of its socket the
template leaves.
"""

from __future__ import annotations

import sys

_BEFORE = frozenset(sys.modules)

import _socket  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import marshal  # noqa: E402
import os  # noqa: E402
import types  # noqa: E402

_HERE = os.path.dirname(os.path.realpath(__file__))
_WRITES, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is left beside it
sys.path.insert(0, _HERE)

import zygote_child as child  # type: ignore[import-not-found]  # noqa: E402
import zygote_imports as imports  # type: ignore[import-not-found]  # noqa: E402

del sys.path[0]
sys.dont_write_bytecode = _WRITES

_OURS = frozenset(sys.modules) - _BEFORE
"""Modules that a fresh start would not have; see `Template.prepare`."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SIZE_BYTES = 4
DESCRIPTORS = 5


def main() -> None:
    if sys.path and os.path.realpath(sys.path[0]) == _HERE:
        del sys.path[0]
    for name in _OURS:
        del sys.modules[name]
    template, fds = serve(Functions)
    template.become(fds)
    template.run()


def serve(make: Any) -> tuple[Any, list[int]]:
    """Returns in the child of a call: its template, made by `make`, and its descriptors."""
    control = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, control)
    said, _ = _receive(sock)
    template = make(control, said)
    del said
    try:
        template.prepare()
    except imports.Unsafe as why:
        _send(sock, "refused", str(why))
        os._exit(0)
    _send(sock, "ready", str(imports.own_bytes()))
    while (link := _spare(sock)) is None:
        pass
    fds = template.await_call(sock, link)
    sock.detach()
    return template, fds


class Template:
    """What is settled before the first fork."""

    def __init__(self, control: int, said: dict[str, Any]) -> None:
        self._control = control
        self._preload: list[str] = said["preload"]
        self._sys_path: list[str] = said["sys_path"]
        self._environ: list[tuple[bytes, bytes]] = said["environ"]
        self._changes: list[tuple[bytes, bytes | None]] = []
        """What imports did to the environment."""
        self._setters: list[Any] = []
        self._watched: dict[str, object] = {}

    def prepare(self) -> None:
        """Imports; Unsafe where what came of it must not be forked."""
        path = list(self._sys_path)
        self._begin()
        child.set_environ([*self._environ, (imports.OPENBLAS, b"1")])
        before = dict(os.environb)
        sys.path[:0] = path
        for name in self._preload:
            try:
                importlib.import_module(name)
            except BaseException as error:
                text = "importing {} failed: {}: {}"
                raise imports.Unsafe(text.format(name, type(error).__name__, error)) from error
            self._imported(name)
        if sys.path[: len(path)] != path:
            raise imports.Unsafe("importing {} changed sys.path".format(", ".join(self._preload)))
        del sys.path[: len(path)]
        self._changes = imports.changes(before, dict(os.environb))
        if self._preload:
            import ctypes

            self._setters = imports.openblas_setters(ctypes)
        child.set_environ([])
        self._environ = []
        os.chdir("/")
        self._watched = imports.files_of(list(sys.modules.values()))
        self.look()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if os.fstat(1).st_size:
            raise imports.Unsafe("importing {} printed something".format(", ".join(self._preload)))
        imports.keep_finalizers()
        self._end()
        gc.collect()
        gc.freeze()

    def _begin(self) -> None:
        """Before anything is imported."""

    def _imported(self, name: str) -> None:
        """After each module."""

    def _end(self) -> None:
        """After all of them, before the first fork."""

    def look(self, given: Sequence[int] = ()) -> None:
        """Unsafe where a fork would not be like a fresh start, now. `given` are a call's."""
        imports.require_safe((self._control, *given), self._watched, ", ".join(self._preload))

    def await_call(self, sock: Any, link: Any) -> list[int]:
        """In the spare: the descriptors of its call, once its supervisor knows that it has it."""
        (leaf,) = _receive(sock)[1]
        os.write(leaf, b"0")
        os.close(leaf)
        fds = _receive(sock)[1]
        try:
            self.look((link.fileno(), *fds))
        except imports.Unsafe as why:
            _send(sock, "stale", str(why))
            os._exit(0)
        try:
            link.send(b"1")
        except OSError:
            os._exit(1)  # nobody forks any more: its supervisor has not heard of it
        link.close()
        _send(sock, "pid", str(os.getpid()))
        return fds

    def become(self, fds: list[int]) -> None:
        """In the child: all that a fresh start would have found. Returns past the gate."""
        os.setsid()
        for target in (0, 1, 2):
            os.dup2(fds[target], target)
        os.fchdir(fds[3])
        for fd in (*fds[:4], self._control):
            os.close(fd)
        child.open_streams()
        self._reseed()
        imports.forget_listings()
        call, _ = _receive(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fds[4]))
        child.set_environ(call["environ"])
        self._settle(call, [os.fsdecode(word) for word in call["argv"]])

    def _reseed(self) -> None:
        imports.reseed(sys.modules)

    def _settle(self, call: dict[str, Any], argv: list[str]) -> None:
        """What the call says of itself; the environment is set."""

    def _count_threads(self) -> None:
        """As many threads of OpenBLAS as its own start would have made."""
        for setter in self._setters:
            setter(imports.thread_count())

    def _apply_changes(self) -> None:
        for name, value in self._changes:
            if value is None:
                os.environb.pop(name, None)
            else:
                os.environb[name] = value


class Functions(Template):
    """For calls of functions: each runs the runner."""

    def __init__(self, control: int, said: dict[str, Any]) -> None:
        super().__init__(control, said)
        self._runner: str = said["runner"]
        self._code: Any = None
        self._modules: frozenset[str] = frozenset()

    def _begin(self) -> None:
        with open(self._runner, encoding="utf-8") as file:
            self._code = compile(file.read(), self._runner, "exec", dont_inherit=True)
        names: dict[str, Any] = {"__name__": "runner", "__file__": self._runner}
        exec(self._code, names)  # noqa: S102  our own file, for what it imports
        sys.path[:0] = self._sys_path
        if names["_has_gpulayer"]():  # the module that a call is for mostly needs it
            self._preload.insert(0, "gpulayer")
        del sys.path[: len(self._sys_path)]
        names["load"]()

    def _imported(self, name: str) -> None:
        if name == "gpulayer":
            getattr(sys.modules[name], "remote", None)  # loads all that the decorator needs

    def _end(self) -> None:
        self._modules = frozenset(sys.modules) - {"__main__"}

    def _settle(self, call: dict[str, Any], argv: list[str]) -> None:
        self._count_threads()
        self._apply_changes()
        sys.argv[:] = argv[1:]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = argv
        sys.path.insert(0, os.path.dirname(self._runner))

    def run(self) -> None:
        """The runner, as the program that this process was started for."""
        main = types.ModuleType("__main__")
        main.__file__ = self._runner
        sys.modules["__main__"] = main
        try:
            exec(self._code, vars(main))  # noqa: S102  our own file
        except SystemExit as stop:
            del main
            child.leave(stop, [name for name in sys.modules if name not in self._modules])


# --- messages -------------------------------------------------------------------------------


def _send(sock: Any, word: str, text: str) -> None:
    data = "{} {}".format(word, text).encode("utf-8", "backslashreplace")
    sock.sendall(len(data).to_bytes(SIZE_BYTES, "big") + data)


def _receive(sock: Any) -> tuple[dict[str, Any], list[int]]:
    """The next message and its descriptors. At the end of the socket the process ends."""
    fds: list[int] = []
    size = int.from_bytes(_exactly(sock, SIZE_BYTES, fds), "big")
    return marshal.loads(_exactly(sock, size, fds)), fds  # noqa: S302  of its own supervisor


def _exactly(sock: Any, count: int, fds: list[int]) -> bytes:
    data = b""
    while len(data) < count:
        part, extra, _, _ = sock.recvmsg(count - len(data), _socket.CMSG_SPACE(4 * DESCRIPTORS))
        if not part:
            os._exit(0)  # its supervisor is gone, or wants it no more
        for level, kind, payload in extra:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                parts = (payload[at : at + 4] for at in range(0, len(payload), 4))
                fds += (int.from_bytes(part, sys.byteorder) for part in parts)
        data += part
    return data


# --- the fork -------------------------------------------------------------------------------


def _spare(sock: Any) -> Any:
    """Forks one. In it: a socket to its template, which is to hear that it was taken. In the
    template, once it was: None. Where it cannot be or ended without a call, the template ends."""
    ours, theirs = _socket.socketpair()
    try:
        between = os.fork()
    except OSError:
        between = -1
    if between == 0:
        try:
            is_spare = os.fork() == 0
        except OSError:
            os._exit(1)
        if not is_spare:
            os._exit(0)
        ours.close()
        if not theirs.recv(1):
            os._exit(0)
        return theirs
    theirs.close()
    if between < 0 or os.waitpid(between, 0)[1]:
        _send(sock, "stale", "its warm process could not fork")
        os._exit(1)
    ours.send(b"1")  # from here on it is its supervisor's child, which may be answered
    if not ours.recv(1):
        os._exit(0)
    ours.close()
    return None


if __name__ == "__main__":
    main()
