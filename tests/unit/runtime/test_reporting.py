"""`report`: a line for each call in a job, and nothing at all elsewhere."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from gpulayer.runtime import reporting
from gpulayer.runtime.reporting import report


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv(reporting.VARIABLE, str(path))
    for name in ("RANK", "WORLD_SIZE", reporting.INDEX):
        monkeypatch.delenv(name, raising=False)
    return path


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_report_is_a_line_at_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report({"loss": 0.5, "n": 3, "good": True}, step=50)
    monkeypatch.setenv(reporting.INDEX, "7")
    report(step=60, loss=0.25)
    first, second = lines(file)
    assert (first["step"], first["values"]) == (50, {"loss": 0.5, "n": 3, "good": 1.0})
    assert "index" not in first
    assert (second["index"], second["values"]) == (7, {"loss": 0.25})
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_step_calls_are_counted(file: Path) -> None:
    for value in range(3):
        report(x=value)
    steps = [line["step"] for line in lines(file)]
    assert steps == [steps[0], steps[0] + 1, steps[0] + 2]  # type: ignore[operator]


@pytest.mark.parametrize("rank", ["1", "3"])
def test_rank_0_speaks_for_all(file: Path, monkeypatch: pytest.MonkeyPatch, rank: str) -> None:
    monkeypatch.setenv("RANK", rank)
    report(x=1)  # a stray RANK: there are no others
    monkeypatch.setenv("WORLD_SIZE", "4")
    report(x=2)
    monkeypatch.setenv("RANK", "0")
    report(x=3)
    assert [line["values"] for line in lines(file)] == [{"x": 1}, {"x": 3}]


def test_outside_of_a_job_it_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(reporting.VARIABLE, raising=False)
    report({"loss": object()}, step=1)
    assert capfd.readouterr() == ("", "")


class Tensor:
    def __float__(self) -> float:
        return 1.5


class Many:
    def __float__(self) -> float:
        raise ValueError("only one element tensors can be converted")


def test_values_are_whatever_is_a_number(file: Path) -> None:
    report(loss=Tensor(), odd=float("nan"), vast=float("-inf"))
    assert '"loss":1.5,"odd":NaN,"vast":-Infinity' in file.read_text()
    for bad, why in ((Many(), "only one element"), ("0.5", "is a str"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"report: 'loss' .*{why}"):
            report(loss=bad)


def test_a_full_disk_is_told_once_and_ends_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(reporting.VARIABLE, "/dev/full")
    for _ in range(3):
        report(x=1)
    said = capfd.readouterr().err
    assert said == f"gpulayer: no more metrics are kept: {os.strerror(28)}\n"


def test_a_link_in_its_place_is_not_followed(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file.symlink_to(tmp_path / "elsewhere")
    report(x=1)
    assert not (tmp_path / "elsewhere").exists()
    assert "no more metrics are kept" in capfd.readouterr().err


def test_lines_of_threads_and_children_stay_whole(file: Path) -> None:
    def work() -> None:
        for step in range(200):
            report({f"name-{n}": 1.0 for n in range(20)}, step=step)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if (child := os.fork()) == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(lines(file)) == 1_000
