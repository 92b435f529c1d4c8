"""The folder of an ended task becomes that of the next one, if nothing of a job is in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulayer.worker.steps.spares import MOST, Spares


def made(tasks: Path, name: str) -> str:
    (tasks / name / "out").mkdir(0o700, parents=True)
    (tasks / name).chmod(0o700)
    return str(tasks / name)


def test_a_kept_folder_is_given_under_a_new_name(tmp_path: Path) -> None:
    spares = Spares(str(tmp_path))
    assert not spares.take(str(tmp_path / "t2"))
    assert spares.keep(made(tmp_path, "t1"))
    assert not (tmp_path / "t1").exists()
    assert spares.take(str(tmp_path / "t2"))
    assert os.listdir(tmp_path / "t2") == ["out"]
    assert not spares.take(str(tmp_path / "t3"))


@pytest.mark.parametrize(
    "leave",
    [
        lambda folder: (folder / "out" / "file").touch(),
        lambda folder: (folder / "out" / ".hidden").touch(),
        lambda folder: (folder / "beside").touch(),
        lambda folder: (folder / "out").chmod(0o755),
        lambda folder: (folder / "out").chmod(0o2700),
        lambda folder: folder.chmod(0o777),
        lambda folder: (folder / "out").rmdir(),
        lambda folder: ((folder / "out").rmdir(), (folder / "out").symlink_to("/")),
        lambda folder: ((folder / "out").rmdir(), (folder / "out").touch()),
        lambda folder: (folder / "out").rename(folder / "renamed"),
    ],
)
def test_one_that_a_job_has_changed_is_not(tmp_path: Path, leave: Callable[[Path], object]) -> None:
    spares = Spares(str(tmp_path))
    folder = made(tmp_path, "t1")
    leave(Path(folder))
    assert not spares.keep(folder)
    assert os.path.exists(folder)
    assert not spares.take(str(tmp_path / "t2"))


def test_a_name_that_is_taken_stays_as_it_is(tmp_path: Path) -> None:
    spares = Spares(str(tmp_path))
    spares.keep(made(tmp_path, "t1"))
    (tmp_path / "t2").mkdir()
    (tmp_path / "t2" / "theirs").touch()
    assert not spares.take(str(tmp_path / "t2"))
    assert os.listdir(tmp_path / "t2") == ["theirs"]


def test_no_more_are_kept_than_a_few_and_none_of_an_earlier_agent(tmp_path: Path) -> None:
    spares = Spares(str(tmp_path))
    kept = [spares.keep(made(tmp_path, f"t{number}")) for number in range(MOST + 2)]
    assert kept == [True] * MOST + [False] * 2
    later = Spares(str(tmp_path))
    assert later.keep(made(tmp_path, "t900"))
    assert os.listdir(tmp_path / "spare") == ["t900"]
