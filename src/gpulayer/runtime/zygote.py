"""A template Python process: it has imported what calls need, and forks one child per call.

    PYTHON zygote.py        standard input: a socket to the supervisor, output: a file kept empty

Run by its path, the standard library alone, any Python from 3.8 up. Messages stand behind their
length in four bytes: down a `marshal`ed object, up a word and a text.

    down  {environ, preload, sys_path, runner}            once: what it shall be
    up    ready BYTES | refused WHY
    down  {} + [stdin, stdout, stderr, folder, leaf, gate]    one call
    up    pid PID | stale WHY                             `stale`: it must not be used any more

The child of a call is forked twice, so that it becomes its supervisor's own child (a subreaper).
It enters the call's leaf first. At the gate, a socket, it is told {argv, environ}, and runs nothing
of the user's before; a gate that closes ends it. So nothing of a call ever reaches the template. At
the end of its socket the template leaves.
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
DESCRIPTORS = 6


def main() -> None:
    if sys.path and os.path.realpath(sys.path[0]) == _HERE:
        del sys.path[0]
    control = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, control)
    said, _ = _receive(sock)
    template = Template(control, said)
    try:
        template.prepare()
    except imports.Unsafe as why:
        _send(sock, "refused", str(why))
        return
    _send(sock, "ready", str(imports.own_bytes()))
    while True:
        fds = _receive(sock)[1]
        try:
            template.look(fds)
        except imports.Unsafe as why:
            _send(sock, "stale", str(why))
            return
        pid = _fork(fds[4])
        if pid == 0:
            break
        for fd in fds:
            os.close(fd)
        _send(sock, "pid", str(pid))
    sock.detach()
    template.become(fds)
    del said, sock
    template.run()


class Template:
    """What is settled before the first fork."""

    def __init__(self, control: int, said: dict[str, Any]) -> None:
        self._control = control
        self._preload: list[str] = said["preload"]
        self._sys_path: list[str] = said["sys_path"]
        self._runner: str = said["runner"]
        self._environ: list[tuple[bytes, bytes]] = said["environ"]
        self._changes: list[tuple[bytes, bytes | None]] = []
        """What imports did to the environment."""
        self._setters: list[Any] = []
        self._watched: dict[str, object] = {}
        self._code: Any = None
        self._modules: frozenset[str] = frozenset()

    def prepare(self) -> None:
        """Imports; Unsafe where what came of it must not be forked."""
        for name in _OURS:
            del sys.modules[name]
        with open(self._runner, encoding="utf-8") as file:
            self._code = compile(file.read(), self._runner, "exec", dont_inherit=True)
        names: dict[str, Any] = {"__name__": "runner", "__file__": self._runner}
        exec(self._code, names)  # noqa: S102  our own file, for what it imports
        _set_environ([*self._environ, (imports.OPENBLAS, b"1")])
        before = dict(os.environb)
        path = list(self._sys_path)
        sys.path[:0] = path
        if names["_has_gpulayer"]():  # the module that a call is for mostly needs it
            self._preload.insert(0, "gpulayer")
        for name in self._preload:
            try:
                module = importlib.import_module(name)
                if name == "gpulayer":
                    getattr(module, "remote", None)  # loads all that the decorator needs
            except BaseException as error:
                text = "importing {} failed: {}: {}"
                raise imports.Unsafe(text.format(name, type(error).__name__, error)) from error
        if sys.path[: len(path)] != path:
            raise imports.Unsafe("importing {} changed sys.path".format(", ".join(self._preload)))
        del sys.path[: len(path)]
        self._changes = imports.changes(before, dict(os.environb))
        if self._preload:
            import ctypes

            self._setters = imports.openblas_setters(ctypes)
        _set_environ([])
        self._environ = []
        os.chdir("/")
        self._watched = imports.files_of(list(sys.modules.values()))
        self.look()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if os.fstat(1).st_size:
            raise imports.Unsafe("importing {} printed something".format(", ".join(self._preload)))
        self._modules = frozenset(sys.modules) - {"__main__"}
        gc.collect()
        gc.freeze()

    def look(self, given: Sequence[int] = ()) -> None:
        """Unsafe where a fork would not be like a fresh start, now. `given` are a call's."""
        imports.require_safe((self._control, *given), self._watched, ", ".join(self._preload))

    def become(self, fds: list[int]) -> None:
        """In the child: all that a fresh start would have found. Returns past the gate."""
        os.setsid()
        for target in (0, 1, 2):
            os.dup2(fds[target], target)
        os.fchdir(fds[3])
        for fd in (*fds[:5], self._control):
            os.close(fd)
        _open_streams()
        imports.reseed()
        importlib.invalidate_caches()
        call, _ = _receive(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, fds[5]))
        _set_environ(call["environ"])
        self._count_threads()
        for name, value in self._changes:
            if value is None:
                os.environb.pop(name, None)
            else:
                os.environb[name] = value
        argv = [os.fsdecode(word) for word in call["argv"]]
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
            _leave(stop, [name for name in sys.modules if name not in self._modules])

    def _count_threads(self) -> None:
        """As many threads of OpenBLAS as its own start would have made."""
        for setter in self._setters:
            setter(imports.thread_count())


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


def _fork(leaf: int) -> int:
    """0 in the child, its id in the template; -1 where it could not be."""
    reader, writer = os.pipe()
    try:
        between = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return -1
    if between == 0:
        try:
            os.write(leaf, b"0")
            pid = os.fork()
        except OSError:
            os._exit(1)
        if pid:
            os.write(writer, b"%d" % pid)
            os._exit(0)
        os.close(reader)
        os.close(writer)
        return 0
    os.close(writer)
    said = os.read(reader, 32)
    os.close(reader)
    os.waitpid(between, 0)  # from here on the child is its supervisor's
    return int(said or b"-1")


def _set_environ(entries: list[tuple[bytes, bytes]]) -> None:
    """The whole environment, in this order."""
    for name in list(os.environb):
        del os.environb[name]
    for name, value in entries:
        os.environb[name] = value


def _open_streams() -> None:
    """Standard streams as the interpreter makes them (pylifecycle.c, create_stdio)."""
    import io

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        mode = "w" if number else "r"
        raw: Any = io.FileIO(number, mode, closefd=False)
        raw.name = "<{}>".format(name)
        at_once = old.write_through  # python -u
        buffer: Any = raw
        if number == 0 or not at_once:
            size = os.fstat(number).st_blksize
            size = size if size > 1 else io.DEFAULT_BUFFER_SIZE
            buffer = (io.BufferedWriter if number else io.BufferedReader)(raw, size)
        stream = io.TextIOWrapper(
            buffer,
            old.encoding,
            old.errors,
            "\n",
            not at_once and (raw.isatty() or old.line_buffering),
            at_once,
        )
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, "__{}__".format(name), stream)


def _leave(stop: SystemExit, modules: list[str]) -> None:
    """The end of the interpreter without taking apart what was preloaded, which takes most of the
    time: threads are waited for, calls at exit made, `modules` let go of, streams flushed."""
    import atexit
    import ctypes

    code = 0
    if isinstance(stop.code, int):
        code = stop.code & 0xFF
    elif stop.code is not None:
        code = 1
        sys.stderr.write("{}\n".format(stop.code))
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    stop.__traceback__ = stop.__context__ = None
    for name in modules:
        del sys.modules[name]
    gc.collect()  # what they held ends before the process
    for stream, counts in ((sys.stdout, True), (sys.stderr, False)):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            code = 120 if counts else code
    ctypes.CDLL(None).fflush(None)
    os._exit(code)


if __name__ == "__main__":
    main()
