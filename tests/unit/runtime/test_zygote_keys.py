"""Which calls share a template, and which may have none."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.runtime.spawn import Launch
from gpulayer.runtime.zygote_keys import obstacle, shared

ENVIRON = (b"PATH=/bin", b"A=1", b"GPULAYER_JOB_ID=j1", b"CUDA_VISIBLE_DEVICES=GPU-1")
WARM = {"preload": ["json"], "sys_path": ["/p"], "in_place": True}


def launch(*environ: bytes, **world: Any) -> Launch:
    return Launch([b"/py", b"/r.py"], list(environ or ENVIRON), b"/home", {"umask": 0o22, **world})


def key(made: Launch, secrets: Any = (), warm: Any = WARM, interpreter: object = 1) -> str:
    return shared(made, warm, secrets, interpreter).key


def test_what_each_task_has_for_itself_makes_no_difference() -> None:
    other = (*ENVIRON[:2], b"GPULAYER_JOB_ID=j2", b"CUDA_VISIBLE_DEVICES=GPU-2", b"T=secret")
    assert key(launch(*other), [("T", "secret")]) == key(launch())


@pytest.mark.parametrize(
    "other",
    [
        launch(b"PATH=/bin", b"A=2"),
        launch(b"A=1", b"PATH=/bin"),
        launch(umask=0o77),
        launch(rlimits={"NOFILE": [10, 20]}),
        launch(nice=3),
        launch(affinity=[0]),
        launch(ignored_signals=[1]),
    ],
    ids=["variable", "order", "umask", "limits", "nice", "processors", "signals"],
)
def test_whatever_a_fresh_start_would_see_does(other: Launch) -> None:
    assert key(other) != key(launch())


def test_so_do_modules_paths_folder_and_interpreter() -> None:
    keys = {
        key(launch()),
        key(launch(), warm={**WARM, "preload": ["os"]}),
        key(launch(), warm={**WARM, "sys_path": ["/q"]}),
        key(launch(), interpreter=2),
    }
    elsewhere = launch()
    elsewhere.cwd = b"/other"
    assert len(keys | {key(elsewhere)}) == 5
    workspace = {**WARM, "in_place": False}
    assert key(elsewhere, warm=workspace) == key(launch(), warm=workspace)


def test_a_template_is_told_no_secret_and_starts_with_little() -> None:
    made = launch(*ENVIRON, b"T=secret", b"PYTHONHASHSEED=1", b"LC_ALL=C")
    told = shared(made, WARM, [("T", "secret")], 1)
    assert told.told == [
        (b"PATH", b"/bin"), (b"A", b"1"), (b"PYTHONHASHSEED", b"1"), (b"LC_ALL", b"C"),
    ]  # fmt: skip
    assert told.early == [b"PATH=/bin", b"PYTHONHASHSEED=1", b"LC_ALL=C"]


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ((b"A=1", b"A=2"), "set twice"),
        ((b"A",), "has no value"),
        ((b"PYTHONPATH=/a:b",), "PYTHONPATH is relative"),
        ((b"PYTHONINSPECT=1",), "asks the interpreter for more"),
        ((b"T=secret", b"U=a-secret-b"), "part of another variable"),
        ((b"T=secret", b"PYTHONPATH=/a::/b"), ""),
    ],
)
def test_what_is_not_sure_has_none(environ: tuple[bytes, ...], why: str) -> None:
    found = obstacle(launch(*environ), [("T", "secret")])
    assert why in found
    assert bool(found) == bool(why)


def test_an_interpreter_looked_up_by_name_has_none() -> None:
    made = launch()
    made.argv = [b"python", b"/r.py"]
    assert "by its path" in obstacle(made, [])
