"""Secrets of a task: what a terminal has, what a worker's owner allows, and no value told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock
from gpulayer.errors import PreparationError
from gpulayer.worker.secrets.book import Book
from gpulayer.worker.steps.plan import Watch
from gpulayer.worker.task_runner import TaskRunner
from tests.unit.worker.preparing import (
    WORKER_ENVIRON,
    Terminal,
    assignment,
    prepare,
    runner_of,
)

VALUE = "hunter2-hunter2"


@pytest.fixture
def runner(tmp_path: Path) -> TaskRunner:
    return runner_of(tmp_path, {})


def secret(name: str = "HF", source: str = "env", key: str = "TOKEN") -> dict[str, Any]:
    return {"secrets": [{"name": name, "source": source, "key": key}]}


def book(folder: Path, allowed: Mapping[str, str] | str, mode: int = 0o600) -> Book:
    path = folder / "secrets.json"
    path.write_text(allowed if isinstance(allowed, str) else json.dumps(allowed))
    path.chmod(mode)
    return Book(str(path), WORKER_ENVIRON, SystemClock())


def allowing(folder: Path, **allowed: str) -> TaskRunner:
    """A worker whose owner allows these."""
    return runner_of(folder, {}, book=book(folder, allowed))


def private(path: Path, text: str = VALUE + "\n") -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def refused(
    runner: TaskRunner, spec: Mapping[str, Any], slug: str, terminal: Terminal | None = None
) -> PreparationError:
    with pytest.raises(PreparationError) as error:
        prepare(runner, spec, terminal)
    assert error.value.code == slug
    assert VALUE not in json.dumps(error.value.to_json())
    assert error.value.where == "worker lab-1, phase secrets"
    return error.value


# --- a job here -------------------------------------------------------------------------------


def test_a_job_here_has_its_terminals_value_before_what_the_owner_allows(tmp_path: Path) -> None:
    runner = allowing(tmp_path, TOKEN="env:LC_ALL")
    terminal = Terminal(TOKEN="from-terminal")
    task = prepare(runner, secret(), terminal)
    assert task["set"]["HF"] == "from-terminal"
    assert task["redact"] == [["HF", "from-terminal"]]
    assert terminal.asked == [["TOKEN"]]


def test_a_job_here_reads_a_file_of_its_user_that_nobody_else_can_read(
    runner: TaskRunner, tmp_path: Path
) -> None:
    path = private(tmp_path / "token")
    path.chmod(0o640)
    spec = secret(source="file", key=str(path))
    assert f"chmod 600 {path}" in refused(runner, spec, "secret-unsafe", Terminal()).help
    path.chmod(0o600)
    assert prepare(runner, spec, Terminal())["set"]["HF"] == VALUE
    (tmp_path / "link").symlink_to(path)  # of our own
    spec = secret(source="file", key=str(tmp_path / "link"))
    assert prepare(runner, spec, Terminal())["set"]["HF"] == VALUE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of somebody else's")
def test_a_link_that_somebody_else_made_is_not_followed(runner: TaskRunner, tmp_path: Path) -> None:
    private(tmp_path / "token")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "token")
    os.chown(link, 65534, 65534, follow_symlinks=False)
    spec = secret(source="file", key=str(link))
    assert "somebody else's" in refused(runner, spec, "secret-unsafe", Terminal()).message


@pytest.mark.parametrize("content", ["", "\n", "a\0b", "x" * 70_000])
def test_a_file_without_a_usable_value_is_refused(
    runner: TaskRunner, tmp_path: Path, content: str
) -> None:
    path = private(tmp_path / "token", content)
    refused(runner, secret(source="file", key=str(path)), "secret-missing", Terminal())


def test_a_pipe_a_folder_and_nothing_are_refused_at_once(
    runner: TaskRunner, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (pipe, tmp_path, tmp_path / "absent"):
        refused(runner, secret(source="file", key=str(path)), "secret-missing", Terminal())


def test_what_the_terminal_has_not_comes_from_the_owners_list(tmp_path: Path) -> None:
    private(tmp_path / "token")
    runner = allowing(tmp_path, hf=f"file:{tmp_path / 'token'}", other="env:THEIRS")
    for spec in (secret(key="hf"), secret(source="command", key="hf")):
        assert prepare(runner, spec, Terminal())["set"]["HF"] == VALUE
    theirs = Terminal(THEIRS="of the terminal")
    assert prepare(runner, secret(key="other"), theirs)["set"]["HF"] == "of the terminal"


def test_a_missing_one_says_where_to_set_it(runner: TaskRunner) -> None:
    here = refused(runner, secret(key="ABSENT"), "secret-missing", Terminal())
    assert "ABSENT is not set in the terminal of this job" in here.message
    assert here.help == ("read -rs ABSENT; export ABSENT",)
    end = runner.refused(here)
    assert (end.exit_code, end.reason) == (126, "secret_missing")
    assert end.error is not None
    assert end.error["slug"] == "secret-missing"


# --- a job from elsewhere ---------------------------------------------------------------------


def test_any_other_job_gets_nothing_that_the_owner_did_not_allow(tmp_path: Path) -> None:
    path = private(tmp_path / "token")
    hostile = [
        secret(),  # it is in the worker's environment
        secret(key="AWS_SECRET"),
        secret(source="file", key=str(path)),
        secret(source="file", key=f"{tmp_path}/../{tmp_path.name}/token"),
        secret(source="command", key="TOKEN"),
    ]
    for runner in (runner_of(tmp_path, {}), allowing(tmp_path, hf=f"file:{path}")):
        for spec in hostile:
            missing = refused(runner, spec, "secret-missing")
            assert "on lab-1 has no value: no " in missing.message
    assert refused(runner, hostile[0], "secret-missing").help == ("gpulayer join --secret=TOKEN",)


def test_any_other_job_gets_what_the_owner_allowed_wherever_it_is_from(tmp_path: Path) -> None:
    path = private(tmp_path / "token")
    line = f"command:{sys.executable} -c 'print(\"printed-value\")'"
    runner = allowing(tmp_path, TOKEN="env:TOKEN", a=f"file:{path}", b=line)
    values = [prepare(runner, secret(key=key))["set"]["HF"] for key in ("TOKEN", "a", "b")]
    assert values == ["abcdef", VALUE, "printed-value"]
    by_command = prepare(runner, secret(source="command", key="a"))
    assert by_command["redact"] == [["HF", VALUE]]


def test_every_variable_where_the_owner_says_so(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, {}, book=book(tmp_path, {"*": "env:*"}))
    assert prepare(runner, secret())["set"]["HF"] == "abcdef"
    path = private(tmp_path / "token")
    refused(runner, secret(source="file", key=str(path)), "secret-missing")


def test_the_path_of_an_owners_file_is_told_to_nobody(tmp_path: Path) -> None:
    path = private(tmp_path / "a-hidden-place")
    runner = allowing(tmp_path, hf=f"file:{path}")
    path.chmod(0o644)
    unsafe = refused(runner, secret(key="hf"), "secret-unsafe")
    path.unlink()
    missing = refused(runner, secret(key="hf"), "secret-missing")
    for error in (unsafe, missing):
        assert "a-hidden-place" not in json.dumps(error.to_json())


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"a": 1}', '{"a": "hidden"}', '{"a": "file:hidden"}', '{"a": "command:"}',
     '{"a": "command:\\"hidden"}', '{"../a": "env:TOKEN"}', '{"GPULAYER_X": "env:TOKEN"}',
     '{"a": "env:*"}', '{"*": "env:TOKEN"}', '{"a": "env:GPULAYER_TOKEN"}', "x" * 70_000,
     "[" * 60_000],
)  # fmt: skip
def test_a_malformed_list_gives_nothing_and_its_text_is_not_told(tmp_path: Path, text: str) -> None:
    made = book(tmp_path, text)
    assert made.names() is None
    error = refused(runner_of(tmp_path, {}, book=made), secret(key="a"), "secret-unsafe")
    assert "hidden" not in json.dumps(error.to_json())
    assert error.why


def test_a_list_that_others_can_read_gives_nothing(tmp_path: Path) -> None:
    made = book(tmp_path, {"TOKEN": "env:TOKEN"}, mode=0o644)
    assert made.names() is None
    refused(runner_of(tmp_path, {}, book=made), secret(), "secret-unsafe")


def test_a_worker_says_what_it_has_a_value_for_now(tmp_path: Path) -> None:
    path = tmp_path / "token"
    made = book(
        tmp_path, {"a": "env:TOKEN", "b": "env:ABSENT", "c": f"file:{path}", "d": "command:x"}
    )
    assert made.names() == ("a", "d")
    path.touch()
    assert made.names() == ("a", "c", "d")
    assert Book(str(tmp_path / "no such"), WORKER_ENVIRON, SystemClock()).names() == ()


def test_a_value_under_six_bytes_is_refused(tmp_path: Path) -> None:
    private(tmp_path / "short", "abcde")
    runner = allowing(tmp_path, hf=f"file:{tmp_path / 'short'}")
    assert "too short" in refused(runner, secret(key="hf"), "secret-unsafe").message


# --- preparation ------------------------------------------------------------------------------


def test_a_command_has_a_thread_a_phase_and_a_step_and_others_have_none(tmp_path: Path) -> None:
    line = f"command:{sys.executable} -c 'print(\"printed-value\")'"
    runner = allowing(tmp_path, TOKEN="env:TOKEN", slow=line)
    phases: list[str] = []
    watch = Watch(enters=phases.append)
    quick, slow = assignment(secret()), assignment(secret(key="slow"))
    assert (runner.waits_long(quick), runner.waits_long(slow)) == (False, True)
    told = runner.prepare(quick, Terminal(), watch)
    assert (phases, told["note"].get("preparation")) == ([], None)
    told = runner.prepare(slow, Terminal(), watch)
    assert phases == ["secrets"]
    assert [step["name"] for step in told["note"]["preparation"]["steps"]] == ["secrets"]
