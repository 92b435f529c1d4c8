from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.gpu import host
from gpulayer.gpu.machine import Machine

MEMINFO = {"/proc/meminfo": "MemTotal:       16000000 kB\nMemFree: 1 kB\n"}


def machine(folder: Path, files: dict[str, str]) -> Machine:
    for name, text in files.items():
        file = folder / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Machine(environ={}, root=folder, platform="linux")


def test_without_limits_cores_are_those_of_the_affinity(tmp_path: Path) -> None:
    assert host.cores(machine(tmp_path, {}), affinity=12) == 12.0


def test_the_tightest_quota_above_this_process_counts(tmp_path: Path) -> None:
    here = machine(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/user.slice/app.scope\n",
            "/sys/fs/cgroup/user.slice/app.scope/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/user.slice/cpu.max": "150000 100000\n",
        },
    )
    assert host.cores(here, affinity=8) == 1.5
    assert host.cores(here, affinity=1) == 1.0


def test_a_container_without_a_cgroup_namespace_finds_its_limit_at_the_top(tmp_path: Path) -> None:
    here = machine(
        tmp_path,
        {
            "/proc/self/cgroup": "0::/docker/0123abcd\n",
            "/sys/fs/cgroup/cpu.max": "200000 100000\n",
            "/sys/fs/cgroup/memory.max": "4000000000\n",
            **MEMINFO,
        },
    )
    assert host.cores(here, affinity=8) == 2.0
    assert host.memory_gb(here) == 4.0


def test_limits_of_the_first_version_of_cgroups_count_too(tmp_path: Path) -> None:
    here = machine(
        tmp_path,
        {
            "/proc/self/cgroup": "4:memory:/job\n3:cpu,cpuacct:/job\n",
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "50000\n",
            "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2000000000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            **MEMINFO,
        },
    )
    assert host.cores(here, affinity=8) == 0.5
    assert host.memory_gb(here) == 2.0


def test_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    assert host.memory_gb(machine(tmp_path, MEMINFO)) == 16.384


def test_memory_that_nobody_tells_is_not_known(tmp_path: Path) -> None:
    assert host.memory_gb(machine(tmp_path, {})) is None


def test_a_folder_that_is_not_there_yet_has_the_space_of_its_parent(tmp_path: Path) -> None:
    free = host.disk_gb(tmp_path / "not" / "yet")
    assert free is not None
    assert free > 0


@pytest.mark.parametrize(
    ("raw", "name"),
    [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("aarch64", "arm64"), ("riscv64", "riscv64")],
)
def test_processors_have_one_name(raw: str, name: str) -> None:
    assert host.cpu_arch(raw) == name


@pytest.mark.parametrize(
    ("platform", "name"), [("linux", "linux"), ("darwin", "macos"), ("win32", "windows")]
)
def test_systems_have_one_name(platform: str, name: str) -> None:
    assert host.os_name(Machine(environ={}, platform=platform)) == name
