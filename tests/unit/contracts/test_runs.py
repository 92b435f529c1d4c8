"""Which elements may share a task."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts import runs
from gpulayer.runtime import values

CALL = {"kind": "function", "entrypoint": "m:f"}
COMMAND = {"kind": "command", "command": ["a"]}
ARTIFACT = "artifact:" + "0" * 64
ARGUMENTS = [{"artifact": ARTIFACT, "path": f"{values.FOLDER}/0.bin"}]
DATA = [{"artifact": ARTIFACT, "path": "data/a.csv"}]


@pytest.mark.parametrize(
    ("spec", "may"),
    [
        ({"workload": CALL}, True),
        ({"workload": COMMAND}, True),
        ({"workload": CALL, "inputs": ARGUMENTS}, True),
        ({"workload": CALL, "inputs": ARGUMENTS + DATA}, False),
        ({"workload": COMMAND, "inputs": ARGUMENTS}, False),
        ({"workload": CALL, "secrets": ["TOKEN"]}, False),
        ({"workload": CALL, "stdin": ARTIFACT}, False),
        ({"workload": {"kind": "distributed"}}, False),
    ],
)
def test_elements_share_a_task_where_none_finds_what_another_left(
    spec: dict[str, Any], may: bool
) -> None:
    assert runs.may_run(spec, in_place=True) is may


def test_a_command_in_a_workspace_of_its_own_goes_alone() -> None:
    assert not runs.may_run({"workload": COMMAND}, in_place=False)
    assert runs.may_run({"workload": CALL}, in_place=False)


def test_the_folder_of_arguments_is_the_one_that_calls_read() -> None:
    assert runs.VALUES == values.FOLDER
