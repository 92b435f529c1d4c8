# ruff: noqa: E501  one script a line
"""Small scripts by families: ways to end, to write, to look at oneself, to import, to be named."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.warm_scripts import Script

ENDS = {
    "nothing": "",
    "pass": "pass",
    "raise": "raise ValueError('no')",
    "raise-class": "raise LookupError",
    "raise-text": "raise ValueError('\\u00e4\\n two')",
    "cause": "try:\n 1/0\nexcept Exception as e:\n raise KeyError('x') from e",
    "context": "try:\n 1/0\nexcept Exception:\n {}['x']",
    "suppressed": "try:\n 1/0\nexcept Exception:\n raise KeyError('x') from None",
    "nested": "def f(n):\n return 1/n + f(n-1)\nf(5)",
    "deep": "def f():\n f()\ntry:\n f()\nexcept RecursionError as e:\n print(e)",
    "notes": "e = ValueError('a')\ngetattr(e, 'add_note', lambda _: 0)('b')\nraise e",
    "own-class": "class Mine(Exception):\n pass\nraise Mine(1, 2)",
    "generator-exit": "raise GeneratorExit",
    "stop": "raise StopIteration(3)",
    "interrupt": "raise KeyboardInterrupt",
    "interrupt-in": "def f():\n raise KeyboardInterrupt('x')\nf()",
    "exit-none": "import sys; sys.exit()",
    "exit-0": "import sys; sys.exit(0)",
    "exit-7": "import sys; sys.exit(7)",
    "exit-256": "import sys; sys.exit(256)",
    "exit-minus": "import sys; sys.exit(-1)",
    "exit-true": "import sys; sys.exit(True)",
    "exit-text": "import sys; sys.exit('a last word')",
    "exit-tuple": "import sys; sys.exit((1, 'x'))",
    "exit-float": "import sys; sys.exit(2.5)",
    "exit-own": "class Bye(SystemExit):\n pass\nraise Bye(4)",
    "exit-in-finally": "import sys\ntry:\n sys.exit(3)\nfinally:\n print('finally')",
    "builtin-exit": "exit(5)",
    "hard": "import os; print('lost'); os._exit(3)",
    "abort": "import os; os.abort()",
    "term": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "int": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "int-default": "import os, signal, time\nsignal.signal(2, signal.SIG_DFL)\n"
    "os.kill(os.getpid(), 2); time.sleep(5)",
    "handled": "import os, signal\nsignal.signal(15, lambda n, f: print(n, f.f_lineno))\n"
    "os.kill(os.getpid(), 15)\nprint('on')",
    "exec": "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'print(6)'])",
    "fault": "import faulthandler, os; faulthandler.enable(); os.kill(os.getpid(), 11)",
    "assert": "assert 1 == 2, 'unequal'",
    "syntax": "def f(:\n",
    "indent": "if 1:\nprint(1)",
    "tabs": "if 1:\n\tprint(1)\n        print(2)",
    "late-syntax": "print('x')\nexec('a b')",
    "null": "print(1)\0",
    "bad-utf8": "print('\udcff')",
    "name": "print(undefined)",
    "import": "import not_there",
    "import-from": "from os import not_there",
}
STREAMS = {
    "both": "import sys\nfor n in range(5):\n print('o', n); print('e', n, file=sys.stderr)",
    "one-pipe": "import os, sys\nos.dup2(1, 2)\nprint('a'); print('b', file=sys.stderr); print('c')",
    "one-pipe-raise": "import os\nos.dup2(1, 2)\nprint('a')\nraise ValueError('b')",
    "one-pipe-exit": "import os, sys\nos.dup2(1, 2)\nprint('a')\nsys.exit('b')",
    "no-newline": "import sys; sys.stdout.write('x'); sys.stderr.write('y')",
    "unicode": "print('\\u20ac \\U0001f600')",
    "surrogate": "print('\\udcff')",
    "bytes": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "raw": "import os; print('late'); os.write(1, b'early\\n')",
    "closed": "import sys; sys.stdout.close()",
    "closed-fd": "import os; print('x'); os.close(1)",
    "closed-both": "import os; print('x'); os.close(1); os.close(2)",
    "detached": "import sys; sys.stdout.detach()",
    "replaced": "import io, sys; sys.stdout = io.StringIO(); print('never seen')",
    "none": "import sys; sys.stdout = None; print('x')",
    "broken-flush": "import sys\nclass S:\n def write(self, t): pass\n"
    " def flush(self): raise OSError('f')\nsys.stdout = S()",
    "large": "print('x' * 300000)",
    "streams": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
    " print(s, s.encoding, s.errors, s.line_buffering, s.write_through, s.mode, s.name,"
    " type(s.buffer), s.newlines, s.isatty())\n print(s is getattr(sys, '__%s__' % s.name[1:-1]))",
    "reconfigure": "import sys; sys.stdout.reconfigure(encoding='latin-1'); print('\\u00e4')",
    "read": "import sys; print(repr(sys.stdin.read()))",
    "input": "input('> ')",
    "iterate": "import sys\nfor line in sys.stdin: print(line)",
    "c-stdio": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.puts(b'from C')\nprint('py')",
    "logging": "import logging; logging.basicConfig(level=10); logging.info('hello')",
    "log-file": "import logging; logging.basicConfig(filename='log', level=10); logging.info('x')",
    "unclosed": "f = open('left', 'w'); f.write('kept')",
}
LOOKS = {
    "argv": "import sys; print(sys.argv, getattr(sys, 'orig_argv', 0))",
    "path": "import sys; print(sys.path)",
    "globals": "print(list(globals().items()))",
    "main": "import __main__; print(vars(__main__) is globals(), __main__.__spec__)",
    "names": "print(__name__, __file__, __doc__, __package__, __spec__, __cached__)",
    "loader": "print(type(__loader__), __loader__.name, __loader__.path)",
    "builtins": "print(__builtins__, dir())",
    "doc": "'text'\nprint(__doc__)",
    "annotated": "x: int = 1\nprint(__annotations__)",
    "flags": "import sys; print(sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode)",
    "modules": "import sys; print(list(sys.modules))",
    "modules-2": "import sys, heavy; print(sorted(sys.modules))",
    "modules-3": "import sys, json, logging; print(sorted(sys.modules), 'heavy' in sys.modules)",
    "finders": "import sys, heavy; print(sys.meta_path, sys.path_hooks)",
    "frames": "import sys\nf = sys._getframe()\nwhile f:\n print(f.f_code.co_filename, f.f_lineno)\n"
    " f = f.f_back",
    "stack": "import traceback; traceback.print_stack()",
    "inspect": "import inspect\nprint([s.function for s in inspect.stack()])\n"
    "def f(): pass\nprint(inspect.getsource(f))",
    "warn": "import warnings\nwarnings.warn('w')\nwarnings.warn('w', stacklevel=2)\n"
    "warnings.warn('d', DeprecationWarning)",
    "warn-deep": "import warnings\ndef f(): warnings.warn('w', stacklevel=3)\nf()",
    "filters": "import warnings; print(warnings.filters)\nimport heavy\nprint(warnings.filters)",
    "filters-2": "import warnings\nwarnings.simplefilter('ignore')\nimport heavy\n"
    "print(warnings.filters)",
    "environ": "import os\nprint({k: v for k, v in os.environ.items() if k != 'GPULAYER_FENCE'})",
    "environ-2": "import os, heavy; print(os.environ['HEAVY_LOADED'], list(os.environ)[-1])",
    "environ-3": "import os, json; print(os.environ.get('HEAVY_LOADED'))",
    "world": "import os; print(os.getcwd(), os.umask(0), os.nice(0), os.getpgid(0) == os.getpid())",
    "fds": "import os; print(sorted(os.listdir('/proc/self/fd')))",
    "signals": "import signal\nprint([signal.getsignal(n) for n in sorted(signal.valid_signals())],"
    " signal.pthread_sigmask(0, []))",
    "threads": "import os, threading\nprint(threading.active_count(), len(os.listdir('/proc/self/task')),"
    " threading.main_thread() is threading.current_thread())",
    "limit": "import sys; print(sys.getrecursionlimit(), sys.getswitchinterval())",
    "executable": "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sys.version)",
    "hooks": "import sys; print(sys.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile())",
    "gc": "import gc; print(gc.isenabled(), gc.get_threshold(), gc.garbage)",
    "locale": "import locale; print(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding())",
    "cpus": "import os; print(os.cpu_count(), sorted(os.sched_getaffinity(0)))",
    "trace": "import sys\ndef t(f, e, a):\n print(e, f.f_code.co_name)\nsys.settrace(t)\n"
    "def f(): return 1\nf()\nsys.settrace(None)",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0], __file__[-9:])\n1/0",
    "excepthook-exit": "import sys\ndef h(*a): sys.exit(9)\nsys.excepthook = h\n1/0",
    "at-exit": "import atexit\natexit.register(print, 'a'); atexit.register(print, 'b')",
    "at-exit-raise": "import atexit\n@atexit.register\ndef f(): 1/0",
    "at-exit-file": "import atexit\n@atexit.register\ndef f():\n try:\n  print(__file__)\n"
    " except NameError as e:\n  print(e)",
    "at-exit-exit": "import atexit, sys\natexit.register(sys.exit, 4)",
    "at-exit-heavy": "import atexit\natexit.register(print, 'a')\nimport heavy\n"
    "@atexit.register\ndef f():\n import sys\n print('heavy' in sys.modules, heavy.VALUE)",
    "finalizer": "class D:\n def __del__(self): print('del', __name__)\nd = D()",
    "finalizer-2": "import os\nclass D:\n def __del__(self): os.write(1, b'del')\nD.kept = D()",
    "weakref": "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'gone')",
    "unraisable": "class D:\n def __del__(self): 1/0\nD()",
    "cycle": "class D:\n def __del__(self): print('cycle')\na = D(); a.a = a; del a",
}  # fmt: skip
DOES = {
    "thread": "import threading\nthreading.Timer(0.02, print, ['late']).start()\nprint('main over')",
    "daemon": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=[9], daemon=True).start()",
    "thread-raise": "import threading\nthreading.Thread(target=lambda: 1/0, name='T').start()",
    "executor": "from concurrent.futures import ThreadPoolExecutor as E\n"
    "with E(2) as e: print(list(e.map(str, range(3))))",
    "fork": "import os, sys\nif os.fork():\n print(os.wait()[1])\nelse:\n print('child')\n"
    " sys.stdout.flush(); os._exit(2)",
    "fork-out": "import os\nif os.fork():\n os.wait()\n print('parent')\nelse:\n print('child')",
    "spawn": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
    " with m.get_context('spawn').Pool(1) as p: print(p.map(f, range(3)))",
    "fork-pool": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
    " with m.get_context('fork').Pool(1) as p: print(p.map(f, range(3)))",
    "process": "import heavy, multiprocessing as m\nm.get_context('fork').Process(target=print,"
    " args=[heavy.VALUE]).start()",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', "
    "'import sys; print(sys.flags)'], capture_output=True).stdout)",
    "asyncio": "import asyncio\nasync def f():\n await asyncio.sleep(0)\n return 3\n"
    "print(asyncio.run(f()))",
    "pickle": "import pickle\nclass A: pass\nprint(pickle.dumps(A), pickle.loads(pickle.dumps(A())))",
    "alarm": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()",
    "argparse": "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int)\n"
    "p.parse_args(['--n', 'x'])",
    "usage": "import argparse\nargparse.ArgumentParser().parse_args(['-h'])",
    "unittest": "import os, unittest\nclass T(unittest.TestCase):\n"
    " def test(self): self.fail('x')\nunittest.main(argv=['x'], testRunner="
    "unittest.TextTestRunner(stream=open(os.devnull, 'w')))",
    "random": "import random; random.seed(4); print(random.random())",
    "decimal": "import decimal; print(decimal.getcontext())",
    "sqlite": "import sqlite3; print(sqlite3.connect(':memory:').execute('select 1').fetchall())",
    "temp": "import tempfile, os\nwith tempfile.TemporaryDirectory() as d: print(os.path.isdir(d))",
    "runpy": "import runpy; print(sorted(runpy.run_path('other.py')))",
    "exec": "exec(compile('raise ValueError(1)', 'made', 'exec'))",
    "reload": "import heavy, importlib; print(importlib.reload(heavy).VALUE)",
    "import-twice": "import heavy, sys; del sys.modules['heavy']; import heavy as h; print(h is heavy)",
    "find-spec": "import importlib.util; print(importlib.util.find_spec('heavy').origin[-17:])",
    "part": "from heavy.parts import Part; print(Part, Part.__module__)",
    "later": "import heavy.later; print(heavy.later.LATER, heavy.later.__spec__.name)",
    "star": "from heavy import *; print(VALUE)",
    "in-function": "def f():\n import heavy\n return heavy.__name__\nprint(f())",
    "dunder": "print(__import__('heavy').VALUE)",
    "identity": "import logging, heavy, sys\nprint(heavy.logging is logging)\n"
    "import random\nprint(heavy.random is random)",
    "local": "import other; print(other.X, other.__file__[-8:])",
    "shadow": "import random; print(random.X)",
    "shadow-heavy": "import heavy; print(heavy.X)",
}
MODULES = {
    "module": ("mod", {"mod.py": "import sys\nprint(sys.argv, sys.path[0], __name__, __spec__.name)"}),
    "package": ("pkg", {"pkg/__init__.py": "print('init')", "pkg/__main__.py":
                        "from . import a\nprint(a.X, __package__)", "pkg/a.py": "X = 1"}),
    "inner": ("pkg.b", {"pkg/__init__.py": "", "pkg/b.py": "import heavy\nprint(heavy.VALUE)\n1/0"}),
    "absent": ("nowhere", {}),
    "no-main": ("pkg", {"pkg/__init__.py": ""}),
    "exit": ("mod", {"mod.py": "import sys; sys.exit('x')"}),
    "seen": ("mod", {"mod.py": "import sys; print(sorted(sys.modules)); print(list(globals()))"}),
    "interrupted": ("mod", {"mod.py": "raise KeyboardInterrupt"}),
}  # fmt: skip
FLAGS = (("-u",), ("-O",), ("-OO",), ("-B",), ("-u", "-B"))
FLAGGED = ("streams", "flags", "assert", "one-pipe-raise", "doc")


def scripts() -> Iterator[Script]:
    """All of them, grouped by their template."""
    families = {"end": ENDS, "stream": STREAMS, "look": LOOKS, "do": DOES}
    files = {"other.py": "X = 5\n"}
    for family, texts in families.items():
        for name, text in texts.items():
            more = {}
            if name == "shadow":
                more = {"random.py": "X = 1\n"}
            if name == "shadow-heavy":
                more = {"heavy.py": "X = 2\n"}
            yield Script(f"{family}-{name}", text, files=files | more, args=("a", "-b"))
    for name, text in ENDS.items():
        if name.startswith(("raise", "exit", "interrupt")):
            yield Script(f"heavy-{name}", f"import heavy\nprint(heavy.VALUE)\n{text}")
    yield Script("hash", "print(hash('x'))", environ=("PYTHONHASHSEED=3",))
    yield Script("crlf", "print(1)\r\nprint(2)\r\n")
    yield Script("bom", "\ufeffprint(1)")
    yield Script("latin", "# coding: latin-1\nprint(len('\udce4'))")
    yield Script("folded", "print(__file__)", file="below/a b.py")
    for name, (module, laid) in MODULES.items():
        yield Script(f"m-{name}", "", module=module, files=laid, args=("x",))
    known = {name: text for texts in families.values() for name, text in texts.items()}
    for flags in FLAGS:
        for name in FLAGGED:
            yield Script(f"{''.join(flags)}-{name}", known[name], flags=flags)
