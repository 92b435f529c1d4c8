"""Environments by the real uv and pip from a folder of packages: whole, shared, never half made."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock
from gpulayer.errors import GPULayerError, PreparationError
from gpulayer.runtime import processes
from gpulayer.worker.environments.building import MARK, Patience, TakenBackError
from gpulayer.worker.environments.making import find_uv
from gpulayer.worker.environments.store import Environments, Ready, Wanted
from tests.support.faults import NEEDS_ROOT, small_disk
from tests.support.packages import BasePython, Packages, own_process

LONG = 600.0
INSTALLERS = {"uv": find_uv, "pip": lambda environ: None}


@pytest.fixture
def packages(tmp_path: Path) -> Packages:
    made = Packages(tmp_path / "packages")
    made.wheel("alpha", "1.0")
    made.wheel("alpha", "2.0")
    made.wheel("beta", "1.0", needs=["alpha>=2"])
    made.wheel("gamma", "1.0", needs=["alpha"])
    return made


@pytest.fixture
def base(tmp_path: Path, packages: Packages) -> BasePython:
    """It has alpha 1.0."""
    made = BasePython(tmp_path / "base")
    made.has(packages, "alpha", "1.0")
    return made


class Bench:
    """One worker's environments, and tasks that want some."""

    def __init__(self, folder: Path, base: BasePython, packages: Packages, uv: Any) -> None:
        self.folder = folder / "environments"
        self.tasks = folder / "tasks"
        self.environ = packages.environ
        self.base = base
        self.all = Environments(str(self.folder), str(self.tasks), SystemClock(), uv=uv)

    def wanted(self, task: str, *requirements: str) -> Wanted:
        (self.tasks / task).mkdir(parents=True, exist_ok=True)
        below = self.all.bases.of(self.base.python, lambda: self.environ)
        return Wanted(requirements, below, str(self.tasks / task), lambda: self.environ)

    def provide(
        self,
        task: str,
        *requirements: str,
        is_wanted: Callable[[], bool] = lambda: True,
        seconds: float = LONG,
    ) -> Ready:
        patience = Patience.begin(SystemClock(), seconds, is_wanted)
        return self.all.provide(self.wanted(task, *requirements), patience)

    def end(self, task: str) -> None:
        shutil.rmtree(self.tasks / task)

    def keys(self) -> list[str]:
        """What lies there and is no lock and nothing about Pythons."""
        found = sorted(path.name for path in self.folder.iterdir())
        return [name for name in found if name != "bases" and not name.endswith(".lock")]


@pytest.fixture(params=list(INSTALLERS))
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, base: BasePython, packages: Packages
) -> Bench:
    return Bench(tmp_path, base, packages, INSTALLERS[request.param])


@pytest.fixture
def by_uv(tmp_path: Path, base: BasePython, packages: Packages) -> Bench:
    return Bench(tmp_path, base, packages, find_uv)


def versions(ready: Ready, *names: str) -> list[str]:
    """What the environment's Python imports under these names."""
    text = f"import {', '.join(names)}; print({', '.join(f'{name}.version' for name in names)})"
    done = subprocess.run(
        [ready.python, "-c", text], capture_output=True, text=True, check=True, env={}
    )
    return done.stdout.split()


def has(ready: Ready, name: str) -> bool:
    """In the environment itself."""
    return bool(list(Path(ready.folder).glob(f"lib/*/site-packages/{name}")))


# --- what is in it ----------------------------------------------------------------------------


def test_what_the_base_has_is_used_and_not_installed_again(bench: Bench, base: BasePython) -> None:
    before = base.files()
    ready = bench.provide("t1", "gamma>=1")
    assert versions(ready, "gamma", "alpha") == ["1.0", "1.0"]
    assert has(ready, "gamma")
    assert not has(ready, "alpha")
    assert base.files() == before


def test_another_version_than_the_base_has_comes_before_it(bench: Bench, base: BasePython) -> None:
    before = base.files()
    assert versions(bench.provide("t1", "beta"), "beta", "alpha") == ["1.0", "2.0"]
    assert versions(bench.provide("t2", "alpha==2.0"), "alpha") == ["2.0"]
    assert versions(bench.provide("t3", "alpha"), "alpha") == ["1.0"]
    assert base.files() == before


def test_an_extra_of_something_that_the_base_has_is_installed(
    bench: Bench, base: BasePython, packages: Packages
) -> None:
    packages.wheel("delta", "1.0", needs=["gamma; extra == 'more'"], extras=["more"])
    base.has(packages, "delta", "1.0")
    ready = bench.provide("t1", "delta[more]")
    assert versions(ready, "delta", "gamma") == ["1.0", "1.0"]
    assert has(ready, "gamma")
    assert not has(ready, "alpha")


def test_the_pip_of_the_base_serves_too(
    tmp_path: Path, base: BasePython, packages: Packages
) -> None:
    base.has_pip()
    bench = Bench(tmp_path, base, packages, lambda environ: None)
    assert versions(bench.provide("t1", "beta"), "beta", "alpha") == ["1.0", "2.0"]


def test_a_uv_that_cannot_leave_names_out_gives_way_to_pip(
    tmp_path: Path, base: BasePython, packages: Packages
) -> None:
    old = tmp_path / "uv"
    old.write_text(
        "#!/bin/sh\necho \"error: unexpected argument '--excludes' found\" >&2\nexit 2\n"
    )
    old.chmod(0o755)
    bench = Bench(tmp_path, base, packages, lambda environ: str(old))
    ready = bench.provide("t1", "gamma")
    assert ready.how == "built by pip"
    assert versions(ready, "gamma") == ["1.0"]


def test_a_marker_that_does_not_apply_asks_for_nothing(bench: Bench) -> None:
    ready = bench.provide("t1", "nosuch; python_version < '3'", "gamma")
    assert versions(ready, "gamma") == ["1.0"]


# --- once for all -----------------------------------------------------------------------------


def test_the_same_request_is_built_once_and_another_one_anew(
    by_uv: Bench, base: BasePython, packages: Packages
) -> None:
    first = by_uv.provide("t1", "gamma", "beta")
    again = by_uv.provide("t2", "beta", "gamma", "gamma")
    assert (first.how, again.how) == ("built by uv", "reused")
    assert first.folder == again.folder
    assert by_uv.provide("t3", "gamma").folder != first.folder
    base.has(packages, "alpha", "2.0")
    assert by_uv.provide("t4", "gamma", "beta").how == "built by uv"


def test_two_jobs_at_once_get_one_environment(by_uv: Bench) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: by_uv.provide(f"t{n}", "gamma"), range(4)))
    assert sorted(ready.how for ready in found) == ["built by uv", "reused", "reused", "reused"]
    assert len(by_uv.keys()) == 1


_BUILDER = """
import json, sys
from pathlib import Path
from gpulayer.worker.environments.making import find_uv
from tests.unit.worker.test_environments import Bench
class Of: pass
folder, python, environ, task, *requirements = sys.argv[1:]
base, packages = Of(), Of()
base.python, packages.environ = python, json.loads(environ)
bench = Bench(Path(folder), base, packages, find_uv)
print("begins", flush=True)
print(bench.provide(task, *requirements).how, flush=True)
"""


@pytest.fixture
def other_worker(by_uv: Bench) -> Callable[..., Any]:
    """Another process that wants an environment in the same folder."""

    def begin(task: str, *requirements: str) -> Any:
        folder = str(by_uv.folder.parent)
        environ = json.dumps(by_uv.environ)
        return own_process(_BUILDER, folder, by_uv.base.python, environ, task, *requirements)

    return begin


def test_two_processes_at_once_get_one_environment(
    by_uv: Bench, other_worker: Callable[..., Any]
) -> None:
    with other_worker("t1", "gamma") as one, other_worker("t2", "gamma") as other:
        said = [child.stdout.read().splitlines()[-1] for child in (one, other)]
    assert sorted(said) == ["built by uv", "reused"]
    assert len(by_uv.keys()) == 1


# --- never a half ------------------------------------------------------------------------------


def test_what_cannot_be_installed_leaves_nothing_and_says_why(bench: Bench) -> None:
    for requirement in ("nosuch", "gamma>=7"):
        with pytest.raises(PreparationError) as failed:
            bench.provide("t1", "gamma", requirement)
        assert failed.value.code == "environment-failed"
        assert requirement in failed.value.why
        assert bench.keys() == []


def test_requirements_that_exclude_each_other_are_refused_by_the_installer(bench: Bench) -> None:
    with pytest.raises(PreparationError) as failed:
        bench.provide("t1", "alpha<2", "beta")
    assert "alpha" in failed.value.why
    assert bench.keys() == []


def test_a_build_that_is_taken_back_ends_with_all_its_processes(
    bench: Bench, packages: Packages
) -> None:
    build = packages.waiting("slow")
    wanted = threading.Event()
    wanted.set()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(bench.provide, "t1", "slow", is_wanted=wanted.is_set)
        build.wait()
        wanted.clear()
        build.until_nobody_is_left()
        with pytest.raises(TakenBackError):
            done.result()
    assert bench.keys() == []
    build.let_go()
    assert versions(bench.provide("t1", "slow"), "slow") == ["1.0"]


def test_a_build_that_takes_too_long_ends(by_uv: Bench) -> None:
    wanted = by_uv.wanted("t1", "gamma")
    with pytest.raises(PreparationError) as late:
        by_uv.all.provide(wanted, Patience.begin(SystemClock(), 0.0, lambda: True))
    assert late.value.code == "environment-failed"
    assert "0 s" in late.value.message
    assert by_uv.keys() == []


def test_a_killed_builder_leaves_no_environment_and_the_next_one_begins_anew(
    bench: Bench, packages: Packages
) -> None:
    build = packages.waiting("slow", is_marked=True)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(bench.provide, "t1", "slow")
        build.wait()
        os.kill(_builder_of(bench), signal.SIGKILL)
        build.until_nobody_is_left()
        with pytest.raises(PreparationError) as failed:
            done.result()
    assert failed.value.message == "its installer was killed"
    assert bench.keys() == []
    build.let_go()
    assert bench.provide("t1", "slow").how.startswith("built")


def test_a_killed_worker_takes_its_build_with_it_and_the_next_one_begins_anew(
    by_uv: Bench, packages: Packages, other_worker: Callable[..., Any]
) -> None:
    build = packages.waiting("slow")
    with other_worker("t1", "slow") as worker:
        build.wait()
        worker.kill()
        build.until_nobody_is_left()
        worker.wait()
    halves = by_uv.keys()
    assert len(halves) == 1
    assert by_uv.all.trim() == halves
    assert by_uv.keys() == []
    build.let_go()
    ready = by_uv.provide("t1", "slow")
    assert (ready.how, versions(ready, "slow")) == ("built by uv", ["1.0"])


def test_what_only_looks_like_an_environment_is_not_used(by_uv: Bench) -> None:
    half = Path(by_uv.provide("t1", "gamma").folder)
    (half / "whole.json").unlink()
    shutil.rmtree(next(half.glob("lib/*/site-packages/gamma")))
    ready = by_uv.provide("t2", "gamma")
    assert ready.how == "built by uv"
    (half / "bin" / "python").unlink()
    assert by_uv.provide("t3", "gamma").how == "built by uv"


@NEEDS_ROOT
def test_a_full_disk_is_named_and_the_next_try_begins_anew(bench: Bench, tmp_path: Path) -> None:
    with small_disk(bench.folder, 2) as disk:
        bench.wanted("t1", "gamma")
        disk.fill()
        with pytest.raises((GPULayerError, OSError)) as full:
            bench.provide("t1", "gamma")
        error = full.value
        assert getattr(error, "code", "") == "disk-full" or getattr(error, "errno", 0) == 28
        disk.empty()
        assert bench.keys() == []
        assert versions(bench.provide("t1", "gamma"), "gamma") == ["1.0"]


def test_a_package_without_a_wheel_for_this_python_is_named(
    bench: Bench, packages: Packages
) -> None:
    packages.wheel("narrow", "1.0", tag="cp27-cp27m-win32")
    with pytest.raises(PreparationError) as failed:
        bench.provide("t1", "gamma", "narrow")
    assert "narrow" in failed.value.why
    assert bench.keys() == []
    packages.wheel("narrow", "1.0")
    assert versions(bench.provide("t2", "gamma", "narrow"), "narrow") == ["1.0"]


def test_an_index_that_does_not_answer_is_told_from_a_package_that_is_not_there(
    bench: Bench,
) -> None:
    """pip says the same about both, unless it tries again."""
    environ = bench.environ
    nobody = "http://127.0.0.1:1/simple"
    without = ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_CONFIG_FILE")
    bench.environ = {key: value for key, value in environ.items() if key not in without}
    bench.environ |= {"PIP_INDEX_URL": nobody, "UV_DEFAULT_INDEX": nobody, "PIP_RETRIES": "1"}
    with pytest.raises(PreparationError) as failed:
        bench.provide("t1", "gamma")
    assert "where its packages come from does not answer" in failed.value.message
    assert bench.keys() == []
    bench.environ = environ
    assert versions(bench.provide("t2", "gamma"), "gamma") == ["1.0"]


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_a_login_of_the_index_is_told_to_nobody(bench: Bench, name: str) -> None:
    bench.environ = {
        key: value
        for key, value in bench.environ.items()
        if key not in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_CONFIG_FILE")
    }
    bench.environ |= {
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple",
        name: "http://someone:hunter22@127.0.0.1:1/simple",
    }
    with pytest.raises(PreparationError) as failed:
        bench.provide("t1", "nosuch")
    told = json.dumps(failed.value.to_json()) + repr(failed.value.__cause__)
    assert "hunter22" not in told
    for path in bench.folder.rglob("*"):
        assert not path.is_file() or b"hunter22" not in path.read_bytes()


def test_a_base_that_is_no_python_is_refused(by_uv: Bench) -> None:
    with pytest.raises(PreparationError) as gone:
        by_uv.all.bases.of("/bin/true", dict)
    assert gone.value.code == "interpreter-gone"


# --- room --------------------------------------------------------------------------------------


def test_the_longest_unused_goes_first_and_never_one_that_a_task_uses(by_uv: Bench) -> None:
    folders = []
    for number, requirement in enumerate(("alpha", "beta", "gamma")):
        ready = by_uv.provide(f"t{number}", requirement)
        os.utime(Path(ready.folder, "whole.json"), (1e9 + number, 1e9 + number))
        folders.append(os.path.basename(ready.folder))
    small = Environments(str(by_uv.folder), str(by_uv.tasks), SystemClock(), most_bytes=1)
    assert small.trim() == []
    by_uv.end("t1")
    assert not small.remove(folders[0])
    assert small.trim() == [folders[1]]
    by_uv.end("t0")
    by_uv.end("t2")
    assert small.trim() == [folders[0], folders[2]]
    assert by_uv.keys() == []


def test_one_that_is_being_made_is_not_removed(by_uv: Bench, packages: Packages) -> None:
    build = packages.waiting("slow")
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(by_uv.provide, "t1", "slow")
        build.wait()
        [key] = by_uv.keys()
        assert not by_uv.all.remove(key)
        assert by_uv.all.trim() == []
        os.kill(_builder_of(by_uv), signal.SIGTERM)
        build.until_nobody_is_left()
        with pytest.raises(PreparationError):
            done.result()


def _builder_of(bench: Bench) -> int:
    [key] = bench.keys()
    marked = processes.marked(os.fsencode(f"{MARK}={bench.folder / key}"))
    [builder] = [pid for pid in marked if b"builder.main" in _words(pid)]
    return builder


def _words(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
