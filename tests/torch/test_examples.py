"""The examples that train, each run as a stranger would: the command that its first lines name."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed here")

from tests.support.local_home import SOURCE, LocalHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
GPULAYER = f"{sys.executable} -m gpulayer"


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    """This Python is `python`, with the torch that it was lent, if it was."""
    lent = [SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]
    path = [str(Path(sys.executable).parent), os.environ["PATH"]]
    with LocalHome(
        PATH=os.pathsep.join(path), PYTHONPATH=os.pathsep.join(lent), OMP_NUM_THREADS="1"
    ) as home:
        shutil.copytree(EXAMPLES, home.work / "examples")
        yield home


def run(home: LocalHome, line: str) -> str:
    """What a line prints, without what it tells on the way."""
    done = home.typed(*line.split(), text=True)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def accuracy(said: str) -> float:
    (line,) = [line for line in said.splitlines() if line.startswith("accuracy")]
    return float(line.split()[1])


def test_every_example_is_run_by_a_test() -> None:
    """Those without torch are run by the tests of README and docs."""
    tests = Path(__file__).read_text()
    trains = [path for path in EXAMPLES.glob("*.py") if "gpulayer.torch" in path.read_text()]
    assert trains
    assert [path.name for path in trains if f"examples/{path.name}" not in tests] == []


def test_the_digits_are_learnt_by_one_process_and_by_two(home: LocalHome) -> None:
    assert accuracy(run(home, "python examples/digits_mlp.py")) > 0.8
    two = run(home, f"{GPULAYER} launch --procs-per-node 2 examples/digits_mlp.py")
    assert accuracy(two) > 0.8  # of the first process alone


def test_a_gpt_writes_what_it_has_read(home: LocalHome) -> None:
    assert run(home, "python examples/char_gpt.py").startswith("Beautiful is better than ")


def test_a_loop_of_ones_own(home: LocalHome) -> None:
    assert run(home, "python examples/raw_loop.py").startswith("1 processes, loss 0.0")


def test_a_lightning_module_with_another_import(home: LocalHome) -> None:
    assert accuracy(run(home, "python examples/ported.py")) > 0.9


def test_a_sweep_over_a_matrix(home: LocalHome) -> None:
    line = "run --matrix lr=0.0005,0.02 -- python examples/sweep.py {lr}"
    found = [json.loads(said) for said in run(home, f"{GPULAYER} {line}").splitlines()]
    reached = {one["lr"]: one["accuracy"] for one in found}
    assert reached.keys() == {0.0005, 0.02}
    assert reached[0.02] > reached[0.0005]


def test_what_was_killed_and_resumed_ends_with_the_same_bits(home: LocalHome) -> None:
    said = dict(line.split() for line in run(home, "python examples/resume.py").splitlines())
    assert said["killed"] == "-9"
    assert said["resumed"] == said["uninterrupted"]
