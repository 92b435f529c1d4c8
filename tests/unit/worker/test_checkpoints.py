"""Real folders with real writers: nothing half-written is ever kept, and what is whole is."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock
from gpulayer.contracts.messages import CheckpointKept, KeepCheckpoint
from gpulayer.worker import open_files
from gpulayer.worker.checkpoints import Checkpoints, ended_by_itself

CLOCK = SystemClock()
INTERVAL = 0.2
SECONDS = 30.0


class Plane:
    """What the plane has been told, and a way to wait for it."""

    def __init__(self) -> None:
        self.artifacts: dict[str, bytes] = {}
        self.messages: list[KeepCheckpoint] = []
        self.loses: set[str] = set()
        self.is_away = False
        self.is_over = False
        self.sent = 0
        self._news = threading.Condition()

    def put_artifact(self, path: str) -> str:
        data = Path(path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        self.put_artifacts([(digest, data)])
        return digest

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.sent += len(files)
        self.artifacts.update(files)

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> CheckpointKept:
        with self._news:
            if self.is_away:
                self._news.notify_all()
                raise ConnectionError
            missing = {f["digest"] for f in message.files if "digest" in f} & self.loses
            self.loses -= missing
            if missing:
                return CheckpointKept(kept=False, missing=tuple(missing))
            self.messages.append(message)
            self._news.notify_all()
            return CheckpointKept(kept=True, over=self.is_over)

    def wait(self, there: Callable[[], object]) -> None:
        with self._news:
            assert self._news.wait_for(there, SECONDS)

    @property
    def kept(self) -> list[dict[str, bytes]]:
        """What each checkpoint holds, by path."""
        return [
            {f["path"]: self.artifacts[f["digest"]] for f in m.files if "digest" in f}
            for m in self.messages
            if m.files
        ]


class Desk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plane = Plane()
        self.left = threading.Event()
        self.lives = True
        self.looked = threading.Semaphore(0)
        self.errors: list[BaseException] = []
        self.checkpoints = Checkpoints(
            self.plane,  # type: ignore[arg-type]
            CLOCK,
            self.left,
            self._lives,
            self.errors.append,
        )

    def _lives(self, task_id: str) -> bool:
        self.looked.release()
        return self.lives

    def begin(self) -> None:
        self.checkpoints.begin("t1", 1, str(self.folder), INTERVAL)

    def finish(self, **ended: Any) -> None:
        raw = {"outcome": "failed", "code": 1, "leftovers": 0, "ended_at": CLOCK.now()} | ended
        self.checkpoints.finish("t1", 1, str(self.folder), raw)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    folder = tmp_path / "ck"
    folder.mkdir()
    made = Desk(folder)
    yield made
    made.left.set()
    made.checkpoints.forget("t1")
    assert made.errors == []


def aged(path: Path, seconds: float = 60.0) -> None:
    then = CLOCK.now() - seconds
    os.utime(path, (then, then))


def test_a_still_folder_is_kept_once_and_again_when_it_has_changed(desk: Desk) -> None:
    (desk.folder / "w").write_bytes(b"one")
    desk.begin()
    desk.plane.wait(lambda: len(desk.plane.kept) >= 1)
    (desk.folder / "v").write_bytes(b"two")
    desk.plane.wait(lambda: len(desk.plane.kept) >= 2)
    assert desk.plane.kept == [{"w": b"one"}, {"w": b"one", "v": b"two"}]
    assert desk.plane.sent == 2, "what is known is not sent again"
    first, second = desk.plane.messages
    assert first.at < second.at


def test_a_file_that_is_half_written_is_never_kept_however_long_its_writer_rests(
    desk: Desk,
) -> None:
    """A real process that holds it open, as still as the dead."""
    (desk.folder / "old").write_bytes(b"whole")
    desk.begin()
    desk.plane.wait(lambda: desk.plane.kept)
    program = (
        "import sys; f = open(sys.argv[1], 'wb'); f.write(b'half'); f.flush();"
        "print(flush=True); sys.stdin.read(1); f.write(b' and half'); f.close();"
        "print(flush=True); sys.stdin.read(1)"
    )
    words = [sys.executable, "-c", program, str(desk.folder / "old")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin
        assert writer.stdout
        writer.stdout.readline()
        desk.plane.wait(lambda: desk.plane.messages[-1].note)
        assert desk.plane.messages[-1].note == "open for writing: old"
        assert desk.plane.kept == [{"old": b"whole"}]
        writer.stdin.write(b"x")
        writer.stdin.flush()
        writer.stdout.readline()
        desk.plane.wait(lambda: len(desk.plane.kept) >= 2)
        assert desk.plane.kept[1] == {"old": b"half and half"}
        writer.stdin.write(b"x")


def test_a_log_that_is_always_open_is_left_out_and_said(desk: Desk) -> None:
    with open(desk.folder / "train.log", "w") as log:
        log.write("epoch 1")
        log.flush()
        (desk.folder / "w").write_bytes(b"one")
        desk.begin()
        desk.plane.wait(lambda: desk.plane.kept)
        assert desk.plane.kept[0] == {"w": b"one"}
        assert desk.plane.messages[-1].note == (
            "left out: train.log (open for writing all the time)"
        )
        count = len(desk.plane.kept)
        (desk.folder / "w").write_bytes(b"two")
        desk.plane.wait(lambda: len(desk.plane.kept) > count)
        assert desk.plane.kept[-1] == {"w": b"two"}
    count = len(desk.plane.kept)
    desk.plane.wait(lambda: len(desk.plane.kept) > count)
    assert desk.plane.kept[-1] == {"w": b"two", "train.log": b"epoch 1"}


def test_a_job_that_replaces_its_file_all_the_time_is_kept_too(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    saved = threading.Semaphore(0)
    asked = open_files.written

    def save() -> None:
        number = 0
        while not is_over.wait(0.005):
            number += 1
            (desk.folder / "new").write_bytes(b"%d " % number * 1000)
            (desk.folder / "new").replace(desk.folder / "state")
            saved.release()

    def slowly(files: Collection[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        """Where very many processes are asked, it takes longer than the job needs to save."""
        while saved.acquire(blocking=False):
            pass
        saved.acquire(timeout=1)
        return asked(files)

    monkeypatch.setattr(open_files, "written", slowly)

    saving = threading.Thread(target=save)
    saving.start()
    try:
        desk.begin()
        desk.plane.wait(lambda: len(desk.plane.kept) >= 3)
    finally:
        is_over.set()
        saving.join()
    for kept in desk.plane.kept:
        for data in kept.values():
            first = data.split()[0]
            assert data == (first + b" ") * 1000


def test_what_is_found_when_the_job_does_not_live_any_more_is_not_kept(desk: Desk) -> None:
    desk.lives = False
    (desk.folder / "w").write_bytes(b"left by a killed writer")
    desk.begin()
    for _ in range(3):
        assert desk.looked.acquire(timeout=SECONDS)
    assert desk.plane.messages == []


def test_files_that_the_plane_has_lost_are_sent_again(desk: Desk) -> None:
    (desk.folder / "w").write_bytes(b"one")
    desk.plane.loses = {hashlib.sha256(b"one").hexdigest()}
    desk.begin()
    desk.plane.wait(lambda: desk.plane.kept)
    assert (desk.plane.kept, desk.plane.sent) == ([{"w": b"one"}], 2)


def test_a_plane_that_was_away_is_told_at_the_next_interval(desk: Desk) -> None:
    desk.plane.is_away = True
    (desk.folder / "w").write_bytes(b"one")
    desk.begin()
    for _ in range(2):
        assert desk.looked.acquire(timeout=SECONDS)
    desk.plane.is_away = False
    desk.plane.wait(lambda: desk.plane.kept)


def test_an_attempt_that_is_over_is_not_kept_any_more(desk: Desk) -> None:
    desk.plane.is_over = True
    (desk.folder / "w").write_bytes(b"one")
    desk.begin()
    desk.plane.wait(lambda: desk.plane.kept)
    for watching in [t for t in threading.enumerate() if t.name == "gpulayer-checkpoint"]:
        watching.join(SECONDS)
        assert not watching.is_alive()


def test_a_job_that_was_asked_to_end_leaves_what_it_saved_in_its_grace(desk: Desk) -> None:
    for outcome in ("cancelled", "timed_out"):
        (desk.folder / "w").write_bytes(outcome.encode())
        desk.finish(outcome=outcome, code=143)
        assert desk.plane.kept[-1] == {"w": outcome.encode()}


def test_a_job_that_failed_leaves_what_was_left_alone_or_renamed(desk: Desk) -> None:
    (desk.folder / "a").write_bytes(b"long ago")
    aged(desk.folder / "a")
    (desk.folder / "new").write_bytes(b"just now")
    desk.finish()
    assert desk.plane.kept == [], "perhaps a part of it died in the middle of that file"
    aged(desk.folder / "new", 1e-3)  # as its rename would tell
    (desk.folder / "new").replace(desk.folder / "b")
    desk.finish()
    assert desk.plane.kept == [{"a": b"long ago", "b": b"just now"}]


@pytest.mark.parametrize(
    "ended",
    [
        {"code": None},
        {"code": None, "outcome": "cancelled"},
        {"code": None, "outcome": "timed_out"},
        {"code": 137},
        {"leftovers": 1, "outcome": "cancelled"},
        {"outcome": "lost", "code": None},
        {"outcome": "succeeded", "code": 0},
    ],
)
def test_of_a_job_that_was_killed_or_is_done_nothing_more_is_kept(
    desk: Desk, ended: dict[str, Any]
) -> None:
    (desk.folder / "w").write_bytes(b"perhaps half")
    aged(desk.folder / "w")
    desk.finish(**ended)
    assert desk.plane.messages == []


def test_the_last_one_waits_for_a_plane(desk: Desk) -> None:
    (desk.folder / "w").write_bytes(b"one")
    aged(desk.folder / "w")
    desk.plane.is_away = True
    with pytest.raises(ConnectionError):
        desk.finish()
    desk.plane.is_away = False
    desk.finish()
    assert desk.plane.kept == [{"w": b"one"}]


def test_an_end_is_by_itself_unless_something_of_it_was_killed() -> None:
    assert ended_by_itself({"outcome": "failed", "code": 1, "leftovers": 0})
    assert not ended_by_itself({"outcome": "failed", "code": 1, "leftovers": 2})
