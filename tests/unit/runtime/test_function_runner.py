"""The runner on every Python of this machine from 3.8 up, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpulayer.gpu.interpreters import find_interpreters
from gpulayer.runtime import function_runner

RUNNER = Path(function_runner.__file__)


def pythons() -> list[str]:
    """One interpreter per version, the tests' own among them."""
    found = {sys.version.split()[0]: sys.executable}
    for known in find_interpreters(dict(os.environ)):
        if known.version is not None:
            found.setdefault(known.version, known.path)
    return [found[version] for version in sorted(found)]


PYTHONS = pythons()
WANTED = [f"3.{minor}" for minor in range(8, 14)]


def test_every_minor_version_that_is_here_is_tried(pytestconfig: pytest.Config) -> None:
    versions = [known.version or "" for known in find_interpreters(dict(os.environ))]
    tried = {".".join(version.split(".")[:2]) for version in [*versions, sys.version]}
    missing = [name for name in WANTED if name not in tried]
    if missing:
        reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")
        assert reporter is not None
        reporter.write_line(f"function runner: not on this machine: Python {', '.join(missing)}")
    assert set(WANTED) & tried


def lacks_gpulayer(python: str) -> bool:
    done = subprocess.run([python, "-c", "import gpulayer"], check=False, capture_output=True)
    return done.returncode != 0


@pytest.fixture(params=PYTHONS, ids=lambda path: "-".join(Path(path).parts[-3::2]))
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@dataclass
class Called:
    code: int
    out: str
    err: str
    result: dict[str, Any] | None

    @property
    def error(self) -> dict[str, Any]:
        assert self.result is not None
        return dict(self.result["error"])


@dataclass
class Bench:
    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def call(
        self,
        python: str,
        entrypoint: str,
        *args: Any,
        env: dict[str, str] | None = None,
        **call: Any,
    ) -> Called:
        module, function = entrypoint.split(":")
        result = self.folder / "task" / "result.json"
        result.parent.mkdir(exist_ok=True)
        body = {
            "module": module,
            "function": function,
            "file": None,
            "source": None,
            "sys_path": [str(self.folder)],
            "args": list(args),
            "kwargs": {},
            "stand_in": True,
            "result_bytes": 1 << 20,
            **call,
        }
        call_file = result.with_name("call.json")
        call_file.write_text(json.dumps(body), encoding="ascii")
        done = subprocess.run(
            [python, str(RUNNER), str(call_file), str(result)],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        found = json.loads(result.read_text("ascii")) if result.exists() else None
        return Called(done.returncode, done.stdout, done.stderr, found)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


SCRIPT = """
    import gpulayer as gl

    print("imported", __name__)

    @gl.remote(gpus=1)
    def double(x, times=2):
        print("called")
        return [x] * times

    if __name__ == "__main__":
        double.remote(3)
"""


def test_a_function_of_a_script_returns_its_value_and_the_script_does_not_run(
    bench: Bench, python: str
) -> None:
    script = bench.write("work.py", SCRIPT)
    done = bench.call(python, "work:double", "a", file=str(script), kwargs={"times": 3})
    assert (done.code, done.result) == (0, {"value": ["a", "a", "a"]})
    assert done.out == "imported work\ncalled\n"
    assert done.err == ""


def test_a_function_of_a_package_finds_its_neighbours(bench: Bench, python: str) -> None:
    bench.write("pack/__init__.py", "")
    bench.write("pack/numbers.py", "SEVEN = 7\n")
    bench.write("pack/work.py", "from .numbers import SEVEN\ndef f(): return SEVEN\n")
    assert bench.call(python, "pack.work:f").result == {"value": 7}


def test_a_script_named_like_a_standard_module_takes_nobodys_place(
    bench: Bench, python: str
) -> None:
    script = bench.write("traceback.py", "def f(): return __name__\n")
    done = bench.call(python, "traceback:f", file=str(script))
    assert done.result == {"value": "gpulayer_script"}


def test_a_function_of_a_notebook_comes_as_text_without_its_decorator(
    bench: Bench, python: str
) -> None:
    source = "@gl.remote(\n    gpus=1,\n)\ndef f(x):\n    return 1 // x\n"
    assert bench.call(python, "gpulayer_cell:f", 1, source=source).result == {"value": 1}
    failed = bench.call(python, "gpulayer_cell:f", 0, source=source)
    assert "line 5, in f\n    return 1 // x\n" in failed.error["traceback"]
    left = {path.name for path in (bench.folder / "task").iterdir()}
    assert left == {"call.json", "result.json", "work"}  # the worker removes these


def test_other_decorators_stay_what_they_are(bench: Bench, python: str) -> None:
    bench.write(
        "work.py",
        """
        import functools
        import gpulayer

        def shout(f):
            @functools.wraps(f)
            def inner(*args):
                return f(*args).upper()
            return inner

        @gpulayer.remote
        @shout
        @functools.lru_cache(None)
        def f(x):
            return x
        """,
    )
    assert bench.call(python, "work:f", "loud").result == {"value": "LOUD"}


@pytest.mark.parametrize("python", [python for python in PYTHONS if lacks_gpulayer(python)])
def test_of_gpulayer_only_the_decorator_and_report_are_there(bench: Bench, python: str) -> None:
    bench.write("work.py", "import gpulayer as gl\ndef f(): return gl.run([])\n")
    failed = bench.call(python, "work:f")
    assert failed.error["type"] == "AttributeError"
    assert "gpulayer is not installed" in failed.error["message"]
    assert "'run'" in failed.error["message"]
    bench.write("more.py", "from gpulayer import Trainer\n")
    assert "not installed for this Python" in bench.call(python, "more:f").error["message"]


@pytest.mark.parametrize("python", [python for python in PYTHONS if lacks_gpulayer(python)])
def test_and_what_it_reports(bench: Bench, python: str) -> None:
    bench.write("says.py", "import gpulayer as gl\ndef f(): gl.report({'x': 1}, step=2)\n")
    told = bench.folder / "metrics.jsonl"
    assert bench.call(python, "says:f", env={"GPULAYER_METRICS_FILE": str(told)}).code == 0
    assert '"values":{"x":1}' in told.read_text()


REFUSED = [
    ("(1, object)", "result[1] is a type: make a dataclass"),
    ("{'loss': [1, range(3)]}", "result['loss'][1] is a range"),
    ("{object: 2}", "result has the key <class 'object'>, which is a type"),
    ("{'a': float('nan')}", "result['a'] is nan, which JSON cannot hold: use None"),
    ("-float('inf')", "result is -inf, which JSON cannot hold"),
    ("Number(3)", "result is a work.Number: send a plain int of it"),
    ("[True, object()]", "result[1] is a object"),
    ("knot", "result[0] is nested too deeply or holds itself"),
    ("f", "result is a function"),
]


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_what_would_not_come_back_the_same_is_refused_with_its_place(
    bench: Bench, text: str, problem: str
) -> None:
    bench.write(
        "work.py",
        f"class Number(int): pass\nknot = []\nknot.append(knot)\ndef f(): return {text}\n",
    )
    for python in (PYTHONS[0], PYTHONS[-1]):
        done = bench.call(python, "work:f")
        assert (done.code, done.error["slug"]) == (1, "result-not-json")
        assert done.error["message"].startswith(problem)
        assert done.err == f"error[result-not-json]: {done.error['message']}\n"


def test_plain_values_come_back_exactly(bench: Bench, python: str) -> None:
    bench.write("work.py", "def f(x): return x\n")
    values = [None, True, 0, -1, 10**4000, 0.1, -0.0, 1e308, "", "é\n\0😀", [[]], {}, {"a": [1.0]}]
    done = bench.call(python, "work:f", values)
    assert done.result is not None
    assert repr(done.result["value"]) == repr(values)


def test_a_result_past_its_limit_goes_to_a_file_among_the_outputs(
    bench: Bench, python: str
) -> None:
    bench.write("work.py", "def f(n): return 'x' * n\n")
    env = {"GPULAYER_OUTPUT_DIR": str(bench.folder)}
    done = bench.call(python, "work:f", 98, result_bytes=100, env=env)
    assert done.result == {"value": "x" * 98}
    done = bench.call(python, "work:f", 99, result_bytes=100, env=env)
    assert done.result == {"value": {"$gpulayer": 1, "file": "result-0.json"}}
    written = bench.folder / ".values" / "result-0.json"
    assert json.loads(written.read_text("ascii")) == "x" * 99


def test_a_result_that_shares_its_parts_without_bound_is_too_large(bench: Bench) -> None:
    bench.write("work.py", "def f():\n    x = [0] * 1000000\n    return [x] * 9\n")
    done = bench.call(sys.executable, "work:f")
    assert (done.code, done.error["slug"]) == (1, "too-large")
    assert "makes more than 4000000 parts" in done.error["message"]


KINDS = """
    import dataclasses, datetime, enum, pathlib

    class Level(enum.Enum):
        LOW = 1

    @dataclasses.dataclass
    class Point:
        x: object

    ALL = [(1, 2), {1: "a"}, {3}, b"x", Point((Level.LOW,)), datetime.datetime(2020, 1, 2),
           pathlib.Path("/a"), {"$set": ()}, "\\ud800", 1 << 20000, 1j]

    def give(): return ALL
    def check(x): return [x == ALL, [type(a).__name__ for a in x]]
"""


@pytest.mark.parametrize("name", ["work", "traceback"])
def test_values_of_other_types_come_and_go(bench: Bench, python: str, name: str) -> None:
    """Also those of classes in a script, which has another name where it was started."""
    script = str(bench.write(f"{name}.py", KINDS))
    given = bench.call(python, f"{name}:give", file=script)
    assert given.result is not None, given.err
    assert f'{{"$enum": ["{name}:Level", "LOW"]}}' in json.dumps(given.result)
    taken = bench.call(python, f"{name}:check", given.result["value"], file=script)
    assert taken.result is not None, taken.err
    assert taken.result["value"][0] is True
    assert taken.result["value"][1][4] == "Point"


def tagged(value: Any) -> dict[str, Any]:
    return {"$gpulayer": 1, "value": value}


@pytest.mark.parametrize(
    ("value", "code", "slug", "said"),
    [
        ({"$array": {"data": ""}}, 127, "function-not-importable", "numpy cannot be imported by"),
        ({"$enum": ["absent:X", "a"]}, 127, "function-not-importable", "No module named 'absent'"),
        ({"$enum": ["work:X", "a"]}, 127, "function-not-importable", "no class work:X here"),
        ({"$tuple": 3}, 1, "value-not-portable", "it is damaged"),
        ({"$array": {"file": "../x.npy"}}, 1, "value-not-portable", "cannot be one of its own"),
        ({"$later": 3}, 1, "value-not-portable", "which this version cannot read"),
    ],
)
def test_an_argument_that_cannot_be_read_is_named(
    bench: Bench, python: str, value: Any, code: int, slug: str, said: str
) -> None:
    bench.write("numpy.py", "raise ImportError('none here')\n")
    bench.write("work.py", "def f(*args, **kwargs): return 1\n")
    if "file" in str(value):
        (bench.folder / "numpy.py").write_text("")
    done = bench.call(python, "work:f", 0, tagged(value))
    assert (done.code, done.error["slug"]) == (code, slug), done.err
    assert done.error["message"].startswith("args[1] cannot be read: ")
    assert said in done.error["message"]
    named = bench.call(python, "work:f", kwargs={"x": tagged(value)})
    assert named.error["message"].startswith("kwargs['x'] cannot be read: ")


def test_an_exception_comes_with_its_traceback_and_cause_and_without_our_frames(
    bench: Bench, python: str
) -> None:
    bench.write(
        "work.py",
        """
        class Broken(ValueError):
            pass

        def f():
            try:
                {}["key"]
            except KeyError as error:
                raise Broken("no", 3) from error
        """,
    )
    done = bench.call(python, "work:f")
    error = done.error
    assert done.code == 1
    assert (error["slug"], error["type"], error["module"]) == ("exception", "Broken", "work")
    assert (error["message"], error["args"]) == ("('no', 3)", ["no", 3])
    assert [(c["relation"], c["type"]) for c in error["chain"]] == [("cause", "KeyError")]
    assert str(RUNNER) not in error["traceback"] + done.err
    assert error["traceback"] == done.err
    assert 'work.py", line 9, in f' in done.err


def test_arguments_of_an_exception_that_are_not_plain_are_left_out(
    bench: Bench, python: str
) -> None:
    bench.write("work.py", "def f(): raise ValueError(object)\n")
    assert "args" not in bench.call(python, "work:f").error


@pytest.mark.parametrize(
    ("text", "code"), [("", 0), ("0", 0), ("3", 3), ("256", 0), ("-1", 255), ("'why'", 1)]
)
def test_sys_exit_keeps_its_code(bench: Bench, python: str, text: str, code: int) -> None:
    bench.write("work.py", f"import sys\ndef f(): sys.exit({text})\n")
    done = bench.call(python, "work:f")
    assert (done.code, done.result) == (code, {"exit": code})
    assert done.err == ("why\n" if "why" in text else "")


def test_an_interrupt_ends_it_as_it_ends_python(bench: Bench, python: str) -> None:
    bench.write("work.py", "def f():\n    print('before')\n    raise KeyboardInterrupt\n")
    done = bench.call(python, "work:f")
    assert done.code == -signal.SIGINT
    assert done.out == "before\n"
    assert done.err.endswith("KeyboardInterrupt\n")
    assert done.result is None


@pytest.mark.parametrize(
    ("name", "text", "kind", "frame"),
    [
        ("work:g", "f = 1\n", "ImportError", ""),
        ("work:f", "f = 1\n", "ImportError", ""),
        ("absent:f", "", "ModuleNotFoundError", ""),
        ("work:f", "import not_there\n", "ModuleNotFoundError", 'work.py", line 1'),
        ("work:f", "def f(:\n", "SyntaxError", ""),
        ("work:f", "1 / 0\n", "ZeroDivisionError", 'work.py", line 1'),
        ("work:f", "import sys\nsys.exit()\n", "ImportError", ""),
    ],
)
def test_what_cannot_be_imported_ends_with_127_and_says_where(
    bench: Bench, python: str, name: str, text: str, kind: str, frame: str
) -> None:
    bench.write("work.py", text)
    done = bench.call(python, name)
    assert (done.code, done.error["slug"]) == (127, "function-not-importable")
    assert done.error["type"] == kind
    assert frame in done.error["traceback"]
    assert str(RUNNER) not in done.error["traceback"]


def test_its_own_folder_is_not_importable_and_the_users_path_stays(
    bench: Bench, python: str
) -> None:
    bench.write("else/where.py", "X = 1\n")
    bench.write("work.py", "import sys, where\ndef f(): return [sys.path, sys.argv, where.X]\n")
    done = bench.call(python, "work:f", env={"PYTHONPATH": str(bench.folder / "else")})
    assert done.result is not None
    path, argv, _ = done.result["value"]
    assert path[0] == str(bench.folder)
    assert str(RUNNER.parent) not in path
    assert argv == ["work"]


def test_processes_of_a_spawning_pool_find_the_function(bench: Bench, python: str) -> None:
    bench.write(
        "work.py",
        """
        import multiprocessing

        def square(x):
            return x * x

        def f():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                return pool.map(square, [1, 2, 3])
        """,
    )
    assert bench.call(python, "work:f").result == {"value": [1, 4, 9]}
