"""What `@gl.remote` is before anything is submitted: a function, to people and to type checkers."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import gpulayer as gl
from gpulayer.errors import UsageError

HEAVY = (
    "pydantic",
    "rich",
    "httpx2",
    "starlette",
    "uvicorn",
    "sqlite3",
    "click",
    "yaml",
    "asyncio",
)


@gl.remote(gpus=2, memory="16G", name="train")
def train(lr: float, *, steps: int = 10) -> str:
    """Train it."""
    return f"{lr} {steps}"


def test_a_remote_function_says_what_it_is() -> None:
    assert repr(train).endswith("test_remote:train, gpus=2, memory='16G', name='train'>")


def test_a_remote_function_stays_what_it_was() -> None:
    assert train(0.1, steps=3) == "0.1 3"
    assert (train.__name__, train.__doc__) == ("train", "Train it.")
    assert list(inspect.signature(train).parameters) == ["lr", "steps"]


def test_the_spec_says_what_was_asked_for() -> None:
    spec = train.spec(0.1, steps=5)
    assert spec["name"] == "train"
    assert spec["workload"]["args"] == [0.1]
    assert spec["workload"]["kwargs"] == {"steps": 5}
    assert spec["workload"]["entrypoint"].endswith(":train")
    assert spec["resources"] == {"gpu_count": 2, "accelerator": "gpu", "memory_gb": 16.0}


def test_options_change_only_what_they_name() -> None:
    other = train.options(gpus=4)
    assert other.spec(1.0)["resources"]["gpu_count"] == 4
    assert other.spec(1.0)["resources"]["memory_gb"] == 16.0
    assert train.spec(1.0)["resources"]["gpu_count"] == 2


@pytest.mark.parametrize("options", [{"gpu": 1}, {"memory_gb": 1}])
def test_an_option_that_nobody_knows_is_refused_where_it_is_written(options: Any) -> None:
    with pytest.raises(UsageError) as caught:
        gl.remote(**options)(train.__wrapped__)
    assert caught.value.code == "unknown-field"
    assert "did you mean" in caught.value.why


def test_the_decorator_loads_nothing_heavy() -> None:
    source = f"""
        import sys
        before = set(sys.modules)
        import gpulayer as gl
        assert not any(name.startswith("gpulayer.") and "_version" not in name
                       for name in set(sys.modules) - before), sys.modules
        gl.remote, gl.Client, gl.Job
        print([name for name in {HEAVY!r} if name in sys.modules])
    """
    assert _python(source) == "[]\n"


def test_every_public_name_is_there() -> None:
    assert sorted(name for name in dir(gl) if not hasattr(gl, name)) == []
    assert len(gl.__all__) <= 40


def test_type_checkers_see_what_a_call_gives(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(
        textwrap.dedent("""
        import gpulayer as gl

        @gl.remote
        def plain(x: int) -> str: ...

        @gl.remote(gpus=1)
        def configured(x: int, *, y: float = 1.0) -> list[int]: ...

        reveal_type(plain(1))
        reveal_type(plain.remote(1))
        reveal_type(configured.remote(1, y=2.0))
        reveal_type(configured.submit(1))
        plain.remote("one")
        """)
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "typed.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(Path(gl.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    said = [line.split(": ", 2)[2] for line in done.stdout.splitlines() if "typed.py" in line]
    assert [line for line in said if line.startswith("Revealed")] == [
        'Revealed type is "str"',
        'Revealed type is "str"',
        'Revealed type is "list[int]"',
        'Revealed type is "gpulayer.sdk.job.Job"',
    ]
    assert any("incompatible type" in line for line in said), done.stdout


def _python(source: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env={**os.environ, "PYTHONPATH": str(Path(gl.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
