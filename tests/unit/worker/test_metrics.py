"""A task's file of metrics, as its worker reads it: whole lines, once, whatever the job does."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulayer.clock import SystemClock
from gpulayer.contracts.messages import KeepMetrics, MetricsKept
from gpulayer.errors import GPULayerError
from gpulayer.worker import metrics as under_test, reported
from gpulayer.worker.metrics import Metrics
from gpulayer.worker.slot import Slot
from gpulayer.worker.steps.hiding import Clean
from gpulayer.worker.supervisor_link import SupervisorGone

SECONDS = 30.0


class Plane:
    """Takes each part once, as the real one does."""

    def __init__(self) -> None:
        self.read_to = 0
        self.points: list[tuple[int, str, int, object]] = []
        self.notes: list[str] = []
        self.is_away = self.is_over = self.is_old = False
        self.calls = 0
        self._news = threading.Condition()

    def keep_metrics(self, task_id: str, message: KeepMetrics) -> MetricsKept:
        with self._news:
            self.calls += 1
            self._news.notify_all()
            if self.is_away:
                raise ConnectionError
            if self.is_old:
                raise GPULayerError("route-not-found", "no such route")
            if message.begins != self.read_to:
                return MetricsKept(self.read_to)
            self.read_to = message.ends
            for each in message.series:
                for step, _, value in each["points"]:
                    self.points.append((each["index"], each["name"], step, value))
            self.notes += [message.note] if message.note else []
            return MetricsKept(self.read_to, over=self.is_over)

    def wait(self, there: Callable[[], object]) -> None:
        with self._news:
            assert self._news.wait_for(there, SECONDS)


class Task:
    """One task with its file, and a worker that reads it."""

    def __init__(self, folder: Path, *, secrets: dict[str, str] | None = None) -> None:
        self.path = folder / "metrics.jsonl"
        self.plane = Plane()
        self.errors: list[BaseException] = []
        self.secrets = secrets
        self.slot = Slot("t1", 7, "j1", 3, {"last": 5, "secrets": bool(secrets)}, 0.0)
        self.running = [self.slot]
        self.left = threading.Event()
        self.worker = self.new_worker()

    def new_worker(self) -> Metrics:
        return Metrics(
            self.plane, SystemClock(), self.left, lambda: self.running,  # type: ignore[arg-type]
            lambda task_id: str(self.path), self._clean, self.errors.append,
            every=0.02,
        )  # fmt: skip

    def write(self, text: str | bytes) -> None:
        with open(self.path, "ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def report(self, step: int, index: int = 3, **values: object) -> None:
        self.write(json.dumps({"step": step, "at": 5.0, "index": index, "values": values}) + "\n")

    def finish(self) -> None:
        has = bool(self.secrets)
        self.worker.finish("t1", 7, self.slot.indices, has_secrets=has)

    def _clean(self, task_id: str) -> Clean:
        def clean(texts: list[str]) -> list[str] | None:
            secrets = self.secrets or {}
            if "away" in secrets:
                raise SupervisorGone("redact")
            if "gone" in secrets:
                return None
            for name, value in secrets.items():
                texts = [text.replace(value, f"[redacted:{name}]") for text in texts]
            return texts

        return clean


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def test_nothing_is_sent_of_a_task_that_reports_nothing(task: Task) -> None:
    task.finish()
    assert task.plane.calls == 0


def test_it_is_read_while_the_task_runs_and_to_its_end(task: Task) -> None:
    task.worker.wake()
    task.report(1, loss=0.5)
    task.plane.wait(lambda: len(task.plane.points) == 1)
    task.write('{"step": 2, "values": {"lo')  # half a line: it is waited for
    task.write('ss": 0.25}}\n{"step": 3, "va')
    task.plane.wait(lambda: len(task.plane.points) == 2)
    task.finish()
    assert task.plane.points == [(3, "loss", 1, 0.5), (3, "loss", 2, 0.25)]
    assert not task.plane.notes
    task.left.set()
    task.worker.wake()


def test_a_later_agent_goes_on_where_the_plane_is(task: Task) -> None:
    task.report(1, loss=1.0)
    task.finish()
    task.report(2, loss=2.0)
    task.worker = task.new_worker()
    task.finish()
    assert [step for _, _, step, _ in task.plane.points] == [1, 2]


def test_a_plane_that_is_away_loses_nothing(task: Task) -> None:
    task.report(1, loss=1.0)
    task.plane.is_away = True
    with pytest.raises(ConnectionError):
        task.finish()
    task.plane.is_away = False
    task.finish()
    assert [step for _, _, step, _ in task.plane.points] == [1]


@pytest.mark.parametrize("why", ["is_over", "is_old"])
def test_a_plane_that_takes_no_more_is_not_asked_again(task: Task, why: str) -> None:
    setattr(task.plane, why, True)
    for step in range(3):
        task.report(step, loss=1.0)
        task.finish()
    assert task.plane.calls == 1


def test_what_are_no_metrics_is_left_out_and_said(task: Task) -> None:
    task.write("hello\n[1]\n" + "[" * 100_000 + "\n" + '{"step": 1, "values": 5}\n')
    task.write(b"\xff\xfe\n{}\n\n" + b'{"step": 1e3, "values": {"x": 1}}\n')
    task.report(1, loss=float("nan"), text="x", vast=10**400, **{"a\x1b": 1.0, "n" * 200: 1.0})
    task.report(2, index=6, loss=1.0)  # an element that another task runs
    task.report(2, index=5, loss=1.0)
    task.finish()
    assert task.plane.points == [(3, "loss", 1, "nan"), (5, "loss", 2, 1.0)]
    assert task.plane.notes == [reported.NO_METRICS]


def test_a_flood_is_thinned_and_said(task: Task) -> None:
    lines = [f'{{"step": {n}, "values": {{"a": {n}, "b": {-n}}}}}\n' for n in range(40_000)]
    task.write("".join(lines))
    task.finish()
    assert len(task.plane.points) < 5_000
    assert task.plane.points[-1] == (3, "b", 39_999, -39_999.0)
    assert set(task.plane.notes) == {reported.TOO_FAST}


def test_a_line_without_an_end_and_what_is_far_behind_are_passed_over(task: Task) -> None:
    task.write(b"x" * (under_test.PART_BYTES + 10) + b"\n")
    task.report(1, loss=1.0)
    task.finish()
    assert [step for _, _, step, _ in task.plane.points] == [1]
    with open(task.path, "ab") as file:
        file.truncate(task.path.stat().st_size + under_test.BEHIND_BYTES + under_test.PART_BYTES)
    task.write("\n")
    task.report(2, loss=1.0)
    before = task.plane.calls
    task.finish()
    assert [step for _, _, step, _ in task.plane.points] == [1, 2]
    assert task.plane.calls - before <= 4


@pytest.mark.parametrize("how", ["link", "hard link", "pipe", "folder", "shorter", "another"])
def test_nothing_is_read_in_the_place_of_its_file(task: Task, tmp_path: Path, how: str) -> None:
    other = tmp_path / "secret"
    other.write_text('{"step": 9, "values": {"stolen": 1}}\n' * 3)
    task.report(1, loss=1.0)
    task.finish()
    if how == "shorter":
        os.truncate(task.path, 3)
    else:
        task.path.unlink()
    if how == "link":
        task.path.symlink_to(other)
    elif how == "hard link":
        task.path.hardlink_to(other)
    elif how == "pipe":
        os.mkfifo(task.path)
    elif how == "folder":
        task.path.mkdir()
    elif how == "another":
        other.rename(task.path)
    for _ in range(2):
        task.finish()
    assert task.plane.points == [(3, "loss", 1, 1.0)]
    assert task.plane.notes == [under_test.REPLACED]


def test_no_secret_leaves_in_a_name(tmp_path: Path) -> None:
    task = Task(tmp_path, secrets={"KEY": "hunter2"})
    task.report(1, **{"loss": 1.0, "of hunter2": 2.0})
    task.finish()
    assert {name for _, name, _, _ in task.plane.points} == {"loss", "of [redacted:KEY]"}
    task.report(2, **{"hunter2" + "x" * 121: 1.0})
    task.finish()
    assert task.plane.points[-1][1] == "[redacted:KEY]" + "x" * 114


def test_without_a_supervisor_it_waits_for_one(tmp_path: Path) -> None:
    task = Task(tmp_path, secrets={"away": ""})
    task.report(1, loss=1.0)
    with pytest.raises(SupervisorGone):
        task.finish()
    task.secrets = {"KEY": "hunter2"}
    task.finish()
    assert task.plane.points == [(3, "loss", 1, 1.0)]


def test_where_nobody_knows_the_secrets_any_more_nothing_leaves(tmp_path: Path) -> None:
    task = Task(tmp_path, secrets={"gone": ""})
    task.report(1, loss=1.0)
    task.finish()
    assert not task.plane.points
