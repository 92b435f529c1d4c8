"""Segments by offset."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.errors import StorageError
from gpulayer.storage.logs import LogFolder

JOB, T1, T2, T3 = JobId("job-1"), TaskId("t1"), TaskId("t2"), TaskId("t3")


@pytest.fixture
def logs(tmp_path: Path) -> LogFolder:
    return LogFolder(tmp_path)


def test_overlap_is_dropped_and_a_gap_writes_nothing(logs: LogFolder) -> None:
    assert logs.append(JOB, T1, 0, b"abc") == 3
    assert logs.append(JOB, T1, 0, b"abc") == 3
    assert logs.append(JOB, T1, 2, b"cde") == 5
    assert logs.append(JOB, T1, 6, b"x") == 5
    assert logs.read(JOB, [T1], 0, 100) == b"abcde"


def test_a_silent_task_has_no_file(logs: LogFolder, tmp_path: Path) -> None:
    assert logs.append(JOB, T1, 0, b"") == 0
    assert logs.size(JOB, T1) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_segments_read_as_one_by_any_step(logs: LogFolder, limit: int) -> None:
    logs.append(JOB, T1, 0, b"abc")
    logs.append(JOB, T3, 0, b"defgh")
    read = b""
    while part := logs.read(JOB, [T1, T2, T3], len(read), limit):
        assert len(part) <= limit
        read += part
    assert read == b"abcdefgh"


def test_logs_are_private_and_go_with_their_job(logs: LogFolder, tmp_path: Path) -> None:
    logs.append(JOB, T1, 0, b"abc")
    path = tmp_path / JOB / "t1.seg"
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(path.parent).st_mode & 0o777 == 0o700
    assert logs.sizes() == {JOB: 3}
    assert logs.delete(JOB) == 3
    assert logs.delete(JOB) == 0
    assert logs.sizes() == {}


def test_what_a_killed_removal_left_is_no_log_and_is_swept(logs: LogFolder, tmp_path: Path) -> None:
    logs.append(JOB, T1, 0, b"abc")
    logs.append(JOB, T2, 0, b"de")
    (tmp_path / JOB).rename(tmp_path / f"{JOB}~")
    (tmp_path / f"{JOB}~" / "t1.seg").unlink()
    assert logs.sizes() == {}
    assert logs.read(JOB, [T1, T2], 0, 10) == b""
    logs.append(JOB, T2, 0, b"xyz")
    assert logs.delete(JOB) == 3
    assert os.listdir(tmp_path) == []
    (tmp_path / f"{JOB}~").mkdir()
    logs.sweep()
    assert os.listdir(tmp_path) == []


def test_a_deleted_home_is_not_made_again(tmp_path: Path) -> None:
    logs = LogFolder(tmp_path / "gone")
    with pytest.raises(StorageError):
        logs.append(JOB, T1, 0, b"abc")
    assert not (tmp_path / "gone").exists()


def test_a_link_in_the_place_of_a_segment_is_not_followed(logs: LogFolder, tmp_path: Path) -> None:
    (tmp_path / JOB).mkdir()
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / JOB / "t1.seg").symlink_to(tmp_path / "other")
    with pytest.raises(StorageError):
        logs.append(JOB, T1, 0, b"abc")
    assert (tmp_path / "other").read_bytes() == b""
