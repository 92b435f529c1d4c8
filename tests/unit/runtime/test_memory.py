"""The kernel's count of what it ended for want of memory, in each of the files that may have it."""

from __future__ import annotations

import pytest

from gpulayer.runtime import memory


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (b"low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n", 3),
        (b"oom_kill_disable 0\nunder_oom 0\noom_kill 12\n", 12),
        (b"nr_free_pages 1\noom_kill 0\n", 0),
        (b"low 0\nhigh 0\n", 0),
        (b"", 0),
    ],
    ids=["v2", "v1", "vmstat", "before Linux 4.13", "nobody counts"],
)
def test_the_count_is_read_from_each_of_the_files(text: bytes, count: int) -> None:
    assert memory.counted(text) == count


def test_the_count_of_this_process_is_a_number() -> None:
    assert memory.kills() >= 0
