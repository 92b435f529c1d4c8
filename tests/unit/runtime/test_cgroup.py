"""Leaves, mounts and the finding of processes: what the kernel says, read right."""

from __future__ import annotations

import os
import subprocess

import pytest

from gpulayer.runtime import cgroup, processes
from gpulayer.runtime.mounts import _slow_points


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "68.5"], env={"MARK": f"m{os.getpid()}"})
    yield process
    process.kill()
    process.wait()


def test_a_leaf_holds_what_enters_and_is_empty_after_the_kill(sleeper):
    parent = cgroup.find_parent(f"unit-{os.getpid()}")
    assert parent is not None, "these tests need a cgroup v2 hierarchy they may write"
    leaf = cgroup.Leaf(os.path.join(parent, "one"))
    try:
        assert not leaf.is_populated()
        os.write(leaf.procs, str(sleeper.pid).encode())
        assert leaf.is_populated()
        assert leaf.pids() == [sleeper.pid]
        assert cgroup.end_leaves(parent) == 1
        assert sleeper.wait(60) == -9
        assert not os.path.exists(leaf.path)
        assert cgroup.end_leaves(parent) == 0
    finally:
        leaf.close()
        cgroup.find_parent(f"unit-{os.getpid()}-after")  # as the next home does
        assert not os.path.exists(parent)


def test_folders_that_dead_homes_left_are_removed_and_a_living_home_makes_its_own_again():
    first = cgroup.find_parent(f"unit-{os.getpid()}-a")
    second = cgroup.find_parent(f"unit-{os.getpid()}-b")
    assert first is not None
    assert second is not None
    assert not os.path.exists(first)
    leaf = cgroup.Leaf(os.path.join(first, "one"))
    third = cgroup.find_parent(f"unit-{os.getpid()}-c")
    assert os.path.exists(leaf.path)
    leaf.close()
    for path in (first, third):
        os.rmdir(path)


def test_what_carries_the_marker_is_found_and_ended(sleeper):
    marker = b"MARK=m%d" % os.getpid()
    assert processes.marked(marker) == [sleeper.pid]
    assert processes.marked(b"MARK=m") == []
    assert processes.end_marked(marker) == 1
    assert sleeper.wait(60) == -9
    assert processes.end_marked(marker) == 0


def test_descendants_are_found_below_those_that_are_left_out(sleeper):
    assert sleeper.pid in processes.descendants(os.getpid())
    assert sleeper.pid not in processes.descendants(os.getpid(), but=frozenset({sleeper.pid}))


def test_file_systems_of_other_machines_are_told_by_their_kind():
    table = (
        b"1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        b"2 1 0:40 / /home\\040x rw,nosuid shared:1 - nfs4 server:/x rw\n"
        b"3 1 0:41 / /mnt rw - fuse.sshfs x rw\n"
        b"4 1 8:2 / /usb rw - fuseblk /dev/sdb rw\n"
        b"5 1 0:42 / /tmp rw - tmpfs tmpfs rw\n"
    )
    assert _slow_points(table) == [b"/home x", b"/mnt"]
