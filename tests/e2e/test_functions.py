"""Functions as jobs: where they may be written, what they may take and give, how they fail."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

import gpulayer as gl
from gpulayer.sdk.client import Client
from gpulayer.sdk.connect import Connection
from gpulayer.sdk.embedded import open_embedded
from tests.support.local_home import LocalHome
from tests.support.programs import Programs

pytestmark = pytest.mark.e2e


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as made:
        yield made


@pytest.fixture
def programs(home: LocalHome) -> Programs:
    return Programs(home)


@pytest.fixture(scope="module")
def plane() -> Iterator[Client]:
    with Connection(open_embedded(":memory:")) as client:
        yield client


# --- where ----------------------------------------------------------------------------------

SQUARE = """
    import os, sys
    import gpulayer as gl

    @gl.remote
    def square(x):
        print("in", os.path.basename(os.getcwd()))
        return [x * x, os.getpid() != caller(x)]

    def caller(x):
        return -1

    if __name__ == "__main__":
        print(square(3)[0], square.remote(3), list(square.map([1, 2])))
"""


def test_a_script(programs: Programs) -> None:
    assert programs.run(SQUARE) == "in work\n9 [9, True] [[1, True], [4, True]]\n"


def test_a_script_without_a_guard_is_told_so_and_does_not_start_itself_again(
    programs: Programs,
) -> None:
    said = programs.run("""
        import gpulayer as gl

        @gl.remote
        def double(x: int) -> int:
            return 2 * x

        try:
            double.remote(4)
        except gl.JobError as error:
            print(error)
    """)
    assert "the file of a job submits jobs while it is imported" in said
    assert 'if __name__ == "__main__":' in said
    assert len(programs.home.jobs()) == 1


@pytest.mark.parametrize("name", ["with-dash.py", "antigravity.py", "it's a script.py"])
def test_a_script_of_any_name(programs: Programs, name: str) -> None:
    done = programs.run_words([programs.write(SQUARE, name)])
    assert done.stdout.endswith("9 [9, True] [[1, True], [4, True]]\n"), done.stderr


def test_a_script_started_from_another_folder(programs: Programs, home: LocalHome) -> None:
    path = programs.write(
        """
        import helper, gpulayer as gl

        @gl.remote
        def helped():
            return helper.WORD

        if __name__ == "__main__":
            print(helped.remote())
    """,
        "app/main.py",
    )
    programs.write("WORD = 'from beside'", "app/helper.py")
    assert programs.run_words([path]).stdout == "from beside\n"


PACKAGE = """
    import gpulayer as gl
    from .parts import WORD

    @gl.remote
    def word(n):
        return WORD * n

    if __name__ == "__main__":
        print(word.remote(2))
"""


def test_a_module_of_a_package_run_by_its_name(programs: Programs) -> None:
    programs.write("", "pack/__init__.py")
    programs.write("WORD = 'w'", "pack/parts.py")
    programs.write(PACKAGE, "pack/tool.py")
    assert programs.run_words(["-m", "pack.tool"]).stdout == "ww\n"


def test_a_package_that_runs_itself(programs: Programs) -> None:
    programs.write("", "pack/__init__.py")
    programs.write("WORD = 'w'", "pack/parts.py")
    programs.write(PACKAGE, "pack/__main__.py")
    assert programs.run_words(["-m", "pack"]).stdout == "ww\n"


def test_a_function_that_was_imported(programs: Programs) -> None:
    programs.write("", "pack/__init__.py")
    programs.write("WORD = 'w'", "pack/parts.py")
    programs.write(PACKAGE, "pack/tool.py")
    assert programs.run("from pack.tool import word; print(word.remote(3))") == "www\n"


def test_one_remote_function_calls_another_as_a_plain_one(programs: Programs) -> None:
    said = programs.run("""
        import gpulayer as gl

        @gl.remote
        def inner(x):
            return x + 1

        @gl.remote
        def outer(x):
            return inner(x) * 10

        if __name__ == "__main__":
            print(outer.remote(1))
    """)
    assert said == "20\n"


CELLS = (
    "import gpulayer as gl",
    """
@gl.remote(
    name="cell",
)
def triple(x):
    import math
    return 3 * math.floor(x)
""",
    "print(triple.remote(2.5))",
    "triple.remote(None)",
)


def test_an_interactive_session(programs: Programs) -> None:
    """Cells have source that `linecache` knows and no file, as in IPython and in notebooks."""
    done = programs.run_words(
        [
            programs.write(f"""
        import linecache, sys, types

        cells = sys.modules["__main__"] = types.ModuleType("__main__")
        for number, source in enumerate({CELLS!r}):
            name = f"<cell {{number}}>"
            linecache.cache[name] = len(source), None, source.splitlines(True), name
            exec(compile(source, name, "exec"), cells.__dict__)
    """)
        ]
    )
    assert done.stdout == "6\n", done.stderr
    assert "return 3 * math.floor(x)" in done.stderr
    assert "TypeError" in done.stderr


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("f = gl.remote(lambda x: x)", "a lambda has no name"),
        ("def g():\n    @gl.remote\n    def f(x): ...\ng()", "inside another function"),
        ("class A:\n    @gl.remote\n    def f(self): ...", "belongs to a class"),
        ("f = gl.remote([].append)", "not a plain function"),
    ],
)
def test_what_cannot_be_found_by_name_is_refused_where_it_is_written(
    programs: Programs, source: str, why: str
) -> None:
    done = programs.run_words([programs.write("import gpulayer as gl\n" + source)])
    assert done.returncode == 1
    assert why in done.stderr


def test_an_unknown_option_is_refused_with_the_nearest(programs: Programs) -> None:
    with pytest.raises(gl.UsageError, match="'gpu' is not an option") as caught:
        gl.remote(gpu=1)(os.path.join)
    assert "gpus" in caught.value.why


# --- how they fail --------------------------------------------------------------------------


def test_a_remote_exception_is_chained_with_its_traceback_and_the_last_lines(
    programs: Programs,
) -> None:
    said = programs.run("""
        import traceback
        import gpulayer as gl

        class OwnError(Exception):
            pass

        @gl.remote
        def fails(kind):
            print("on my way")
            if kind == "own":
                raise OwnError("mine")
            {}["missing"]

        if __name__ == "__main__":
            try:
                fails.remote("builtin")
            except gl.JobFailedError as error:
                print(error.code, repr(error.__cause__))
                print("".join(traceback.format_exception(error)))
            try:
                fails.remote("own")
            except gl.JobFailedError as error:
                print(type(error.__cause__).__name__, error.__cause__.kind, error.__cause__)
    """)
    lines = said.splitlines()
    assert lines[0] == "job-failed KeyError('missing')"
    assert 'program.py", line 13, in fails' in said
    assert "on my way" in said
    assert lines[-1] == "RemoteError OwnError OwnError: mine"


def test_results_that_are_no_plain_json_are_refused_and_named(programs: Programs) -> None:
    said = programs.run("""
        import gpulayer as gl

        @gl.remote
        def gives():
            return {"a": [1, (2, object)]}

        if __name__ == "__main__":
            try:
                gives.remote()
            except gl.JobFailedError as error:
                print(error.code, error)
    """)
    assert said.startswith("result-not-json")
    assert "result['a'][1][1] is a type" in said


def test_a_function_may_end_its_process(programs: Programs) -> None:
    said = programs.run("""
        import sys, gpulayer as gl

        @gl.remote
        def leaves(code):
            sys.exit(code)

        if __name__ == "__main__":
            job = leaves.submit(7).wait()
            print(job.status, job.exit_code)
    """)
    assert said == "failed 7\n"


# --- values ---------------------------------------------------------------------------------


@gl.remote
def give_back(value: Any) -> Any:
    return value


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, min_size=10, max_size=40))
@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_a_value_comes_back_equal_and_of_equal_types(plane: Client, values: list[Any]) -> None:
    """Many in each job: a process costs more than a value."""
    both = [values, values[::-1]]
    for sent, got in zip(both, give_back.map(both), strict=True):
        assert repr(got) == repr(give_back(sent)) == repr(sent)


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: give_back.remote((object,)), r"args\[0\]\[0\] is a type"),
        (lambda: give_back.submit([{"a": {len}}]), r"args\[0\]\[0\]\['a'\] holds a part"),
        (lambda: give_back.map([1, range(3)]), r"args\[0\] is a range"),
        (lambda: give_back.submit(value={len: 2}), r"kwargs\['value'\] has the key"),
        (lambda: gl.submit({"kind": "function", "entrypoint": "m:f", "args": [len]}), "a builtin"),
    ],
)
def test_what_would_change_is_refused_at_the_call(plane: Client, call: Any, place: str) -> None:
    before = len(plane.jobs(all=True))
    with pytest.raises(gl.UsageError, match=place):
        call()
    assert len(plane.jobs(all=True)) == before


# --- interpreters ---------------------------------------------------------------------------

OTHERS = sorted(
    path
    for path in glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python"))
    if os.path.realpath(path) != os.path.realpath(sys.executable)
    and Path(path).parts[-3].startswith(("3.8", "3.9", "3.1"))
)


@pytest.mark.parametrize("python", OTHERS, ids=lambda path: Path(path).parts[-3])
def test_a_function_of_a_project_runs_on_the_projects_python(
    programs: Programs, home: LocalHome, python: str
) -> None:
    """Nothing of GPUlayer is installed there: the decorator is a stand-in."""
    subprocess.run([python, "-m", "venv", "--without-pip", home.work / ".venv"], check=True)
    programs.write(
        """
        import sys
        import gpulayer as gl

        @gl.remote(gpus=0)
        def version(*, prefix: str) -> str:
            return prefix + ".".join(map(str, sys.version_info[:2]))
    """,
        "mod.py",
    )
    found = Path(python).parts[-3].rsplit(".", 1)[0]
    cli = [sys.executable, "-m", "gpulayer"]
    words = [*cli, "submit", "-q", "--kwargs", '{"prefix": "py"}', "mod:version"]
    job = _said(home, words)
    _said(home, [*cli, "wait", job])
    assert _said(home, [*cli, "result", job]) == f'"py{found}"'
    shutil.rmtree(home.work / ".venv")


def _said(home: LocalHome, words: list[str]) -> str:
    done = subprocess.run(
        words, cwd=home.work, env=home.environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done
    return done.stdout.strip()
