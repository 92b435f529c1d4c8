"""Values through real jobs: of every kind, large ones as artifacts, and a worker that lacks the
library."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import gpulayer as gl
from gpulayer.sdk.client import Client
from gpulayer.sdk.connect import Connection
from gpulayer.sdk.embedded import open_embedded
from tests.support import value_kinds
from tests.support.local_home import LocalHome
from tests.support.programs import Programs
from tests.support.value_kinds import same

pytestmark = pytest.mark.e2e


@pytest.fixture
def programs() -> Iterator[Programs]:
    with LocalHome() as home:
        yield Programs(home)


@pytest.fixture(scope="module")
def plane() -> Iterator[Client]:
    with Connection(open_embedded(":memory:")) as client:
        yield client


@gl.remote
def give_back(value: Any) -> Any:
    return value


@gl.remote
def doubled(array: Any, times: int) -> Any:
    return {"array": array * times, "kind": type(array).__name__, "text": "x" * times}


def test_many_kinds_come_back_equal_with_equal_types(plane: Client) -> None:
    draw = random.Random(11)
    sent = [value_kinds.value(draw) for _ in range(300)]
    assert same(give_back.remote(sent), sent)
    assert same(give_back.remote(value=(sent,)), (sent,))


def test_arrays_travel_as_artifacts_that_calls_share(plane: Client) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: its arrays are not tried")
    array = numpy.arange(200_000.0)
    mapped = doubled.map([array] * 3, [1, 2, 3_000_000])
    for times, found in zip([1, 2, 3_000_000], mapped, strict=True):
        assert numpy.array_equal(found["array"], array * times)
        assert (found["kind"], len(found["text"])) == ("ndarray", times)
    assert mapped.job is not None
    inputs = [one["path"] for one in mapped.job.refresh()["spec"]["inputs"]]
    assert inputs == [".values/0.npy", ".values/1.bin"]
    outputs = [one["path"] for one in mapped.job.outputs() if one["path"].startswith("2/")]
    assert outputs == ["2/.values/result-0.npy", "2/.values/result-1.json"]


def test_a_job_with_large_arguments_can_be_given_out_again(plane: Client) -> None:
    first = give_back.submit(["x" * 100_000])
    assert first.result() == ["x" * 100_000]
    assert first.retry().result() == ["x" * 100_000]


def test_its_own_inputs_stay_beside_those_of_its_values(plane: Client, tmp_path: Any) -> None:
    (tmp_path / "data.txt").write_text("data")
    function = read.options(inputs=[str(tmp_path / "data.txt")])
    assert list(function.map(["a" * 30_000, "b" * 30_000])) == ["adata", "bdata"]


@gl.remote
def read(text: str) -> str:
    import os

    with open(os.path.join(os.environ["GPULAYER_INPUT_DIR"], "data.txt")) as file:
        return text[0] + file.read()


def test_a_script_and_its_job_mean_the_same_classes(programs: Programs) -> None:
    said = programs.run("""
        import dataclasses, enum
        import gpulayer as gl

        class Level(enum.Enum):
            LOW = 1

        @dataclasses.dataclass
        class Point:
            x: int
            level: Level = Level.LOW

        @gl.remote
        def moved(point, by):
            return dataclasses.replace(point, x=point.x + by), type(point) is Point

        if __name__ == "__main__":
            found, is_ours = moved.remote(Point(1), 2)
            print(found == Point(3), type(found) is Point, is_ours, found.level is Level.LOW)
            print(gl.job("last").result() == (Point(3), True))
    """)
    assert said == "True True True True\nTrue\n"


def test_a_worker_without_the_library_says_which_and_where(programs: Programs) -> None:
    """A project's own Python is what its jobs run with."""
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: its arrays are not tried")
    with gl.connect(embedded=":memory:"):
        args = give_back.spec(numpy.zeros(3))["workload"]["args"]
    home = programs.home
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home.work / ".venv"], check=True)
    programs.write("def f(x): return 1", "mod.py")
    words = [sys.executable, "-m", "gpulayer", "submit", "-q", "--args", json.dumps(args), "mod:f"]
    subprocess.run(words, cwd=home.work, env=home.environ, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "gpulayer", "wait"],
        cwd=home.work, env=home.environ, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 127
    assert "error[function-not-importable]" in done.stderr
    assert "args[0] cannot be read: it holds a numpy value" in done.stderr
    assert f"numpy cannot be imported by {home.work / '.venv'}" in done.stderr


def test_a_program_that_has_not_loaded_the_class_is_told_what_to_import(
    programs: Programs,
) -> None:
    programs.write(
        """
        import dataclasses

        @dataclasses.dataclass
        class Point:
            x: int

        def point():
            return Point(1)
    """,
        "points.py",
    )
    said = programs.run("""
        import sys
        import gpulayer as gl

        if __name__ == "__main__":
            job = gl.submit({"kind": "function", "entrypoint": "points:point"})
            try:
                job.result()
            except gl.JobFailedError as error:
                print(error.code, error)
            print("points" in sys.modules)
            import points
            print(gl.job(job.id).result())
    """)
    lines = said.splitlines()
    assert lines[0].startswith("value-not-portable the result of ")
    assert "the class points:Point is not loaded; import points before" in lines[0]
    assert lines[1:] == ["False", "Point(x=1)"]
