"""`python FILE` and `python -m MODULE` from a template: to the byte what a cold start shows."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import gpulayer as gl
from gpulayer.runtime import cgroup
from tests.support.supervisor import SupervisorHome, eventually
from tests.support.warm import is_template
from tests.support.warm_families import scripts
from tests.support.warm_scripts import Script, ScriptHome
from tests.unit.runtime.test_function_runner import PYTHONS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        cgroup.find_parent("tests-ask") is None, reason="control groups can't be written here"
    ),
]
ALL = list(scripts())
SAMPLE = 9
"""One in so many is tried with the other interpreters."""
OTHERS = [path for path in PYTHONS if "3.8" not in path and path != sys.executable]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SupervisorHome]:
    with SupervisorHome(tmp_path, containment="cgroup") as made:
        yield made


@pytest.fixture
def scripted(home: SupervisorHome) -> ScriptHome:
    return ScriptHome(home)


# --- the same as cold -----------------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_each_script_shows_what_its_cold_start_shows(scripted: ScriptHome, part: int) -> None:
    assert len(ALL) >= 140
    for script in ALL[part::4]:
        cold, _ = scripted.run(script, warm=False)
        assert scripted.forked(script) == cold, script.name


@pytest.mark.parametrize("python", OTHERS, ids=lambda path: "-".join(Path(path).parts[-3::2]))
def test_with_each_interpreter_that_is_here(home: SupervisorHome, python: str) -> None:
    scripted = ScriptHome(home, python)
    for script in ALL[::SAMPLE]:
        cold, _ = scripted.run(script, warm=False)
        assert scripted.forked(script) == cold, script.name


def test_a_script_that_changed_since_it_was_read_runs_as_it_is_now(scripted: ScriptHome) -> None:
    script = Script("x", "print(1)")
    scripted.forked(script)
    seen, cold = scripted.run(script, warm=True, files=[["script.py", "1:2:3:4"]])
    assert (seen.out, seen.code, cold) == (b"1\n", 0, "")


# --- trust ----------------------------------------------------------------------------------


def test_no_script_sees_the_variables_or_the_imports_of_another(scripted: ScriptHome) -> None:
    leaves = Script(
        "leaves",
        "import heavy, os\nheavy.VALUE = 'left'\nos.environ['LEFT'] = '1'\nprint(os.getpid())",
    )
    looks = Script("looks", "import heavy, os\nprint(heavy.VALUE, os.environ.get('LEFT'))")
    first = scripted.forked(leaves)
    second = scripted.forked(leaves)
    assert first.out != second.out
    assert scripted.forked(looks).out == b"7 None\n"


def test_a_secret_reaches_its_script_and_never_the_template(scripted: ScriptHome) -> None:
    value = "s3cr3t-" + os.urandom(8).hex()
    script = Script("secret", "import os\nprint(len(os.environ['TOKEN']), os.environ['TOKEN'])")
    said = {"set": {"TOKEN": value}, "redact": [["TOKEN", value]]}
    seen = scripted.forked(script, **said)
    assert seen.out.startswith(str(len(value)).encode())
    assert value.encode() not in seen.out
    assert scripted.templates()
    for pid in scripted.templates():
        assert value.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_killed_template_costs_a_cold_start_that_says_so(scripted: ScriptHome) -> None:
    script = Script("plain", "import heavy\nprint(heavy.VALUE)")
    scripted.forked(script)
    for pid in scripted.templates():
        with suppress(ProcessLookupError):  # its supervisor ends the spares of one that died
            os.kill(pid, signal.SIGKILL)
    seen, cold = scripted.run(script, warm=True)
    assert seen.out == b"7\n"
    assert cold


def test_a_python_that_runs_more_before_a_script_has_no_template(scripted: ScriptHome) -> None:
    (scripted.installed / "sitecustomize.py").write_text("X = 1\n")
    script = Script("x", "import sitecustomize\nprint(sitecustomize.X)")
    why: list[str] = []

    def is_refused() -> bool:
        seen, cold = scripted.run(script, warm=True)
        assert seen.out == b"1\n"
        why.append(cold)
        return "a sitecustomize of its own" in cold

    eventually(is_refused)


def test_nothing_of_a_script_outlives_it(scripted: ScriptHome) -> None:
    script = Script(
        "strays",
        "import subprocess, os\n"
        "p = subprocess.Popen(['sleep', '1000'], start_new_session=True, env={})\nprint(p.pid)",
    )
    stray = int(scripted.forked(script).out)
    assert not Path(f"/proc/{stray}").exists() or not is_template(stray)
    eventually(lambda: not Path(f"/proc/{stray}").exists())


# --- as a job -------------------------------------------------------------------------------


def test_a_job_says_how_its_script_began_and_cold_is_cold(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import decimal\nprint(decimal.Decimal(1))\n")
    work = {"kind": "command", "command": ["python", str(tmp_path / "t.py")]}
    spec = {"workload": work, "environment": {"preload": ["decimal"]}}
    with gl.connect(embedded=str(tmp_path / "home")) as client:

        def is_forked() -> bool:
            job = client.submit_specs([spec])[0]
            job.wait()
            assert "".join(job.logs()).strip() == "1"
            told = job.preparation
            assert told is not None
            return bool(told["steps"][-1]["note"] == "forked with decimal imported")

        eventually(is_forked)
        cold = client.submit_specs([{**spec, "environment": {"preload": []}}])[0]
        cold.wait()
        assert cold.preparation is None
