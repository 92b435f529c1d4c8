"""What a task is given before it starts, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gpulayer.artifacts import build_source_bundle
from gpulayer.clock import SystemClock
from gpulayer.contracts.keeping import WORKSPACE_SECONDS
from gpulayer.errors import NotFoundError, PreparationError, RefusedError
from gpulayer.worker.instructions import Collect
from gpulayer.worker.steps import leftovers
from gpulayer.worker.task_runner import TaskRunner
from tests.unit.worker.preparing import Terminal, assignment, prepare, runner_of
from tests.unit.worker.scripted_plane import ScriptedPlane


@pytest.fixture
def runner(tmp_path: Path) -> TaskRunner:
    return runner_of(tmp_path, {})


def test_a_job_here_changes_its_terminals_environment_and_runs_in_its_folder(
    runner: TaskRunner,
) -> None:
    task = prepare(runner, {"env": {"EPOCHS": "3"}}, Terminal())
    assert task["environ"] is None
    assert task["cwd"] is None
    assert task["set"]["EPOCHS"] == "3"
    assert task["set"]["GPULAYER_JOB_ID"] == "job-1"
    assert task["set"]["GPULAYER_ATTEMPT"] == "1"
    assert os.path.isdir(task["set"]["GPULAYER_OUTPUT_DIR"])


def test_any_other_job_gets_an_allow_list_and_a_workspace(
    runner: TaskRunner, tmp_path: Path
) -> None:
    task = prepare(runner, {})
    assert task["environ"] == {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C"}
    assert task["cwd"] == str(tmp_path / "t1" / "work") == task["set"]["GPULAYER_WORKSPACE"]
    assert oct(os.stat(tmp_path / "t1").st_mode & 0o777) == "0o700"


def test_without_gpus_none_is_seen_and_with_them_only_those(runner: TaskRunner) -> None:
    assert prepare(runner, {})["set"]["CUDA_VISIBLE_DEVICES"] == ""
    task = prepare(runner, {"env": {"CUDA_VISIBLE_DEVICES": "7"}}, gpus=("GPU-a", "GPU-b"))
    assert task["set"]["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert task["set"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    amd = prepare(runner, {}, gpus=("0xdeadbeef",))
    assert amd["set"]["ROCR_VISIBLE_DEVICES"] == "0xdeadbeef"


def test_a_leading_python_is_the_jobs_interpreter_by_its_full_path(runner: TaskRunner) -> None:
    def argv(*words: str, **fields: Any) -> list[str]:
        spec = {"workload": {"kind": "command", "command": list(words)}}
        return list(prepare(runner, spec, **fields)["argv"])

    assert argv("python", "-V") == [sys.executable, "-V"]
    assert argv("python", "-V", origin={}) == ["/usr/bin/python3", "-V"]
    assert argv("env", "python") == ["env", "python"]


def test_an_interpreter_that_is_gone_is_refused_and_nothing_is_left(
    runner: TaskRunner, tmp_path: Path
) -> None:
    spec = {"workload": {"kind": "command", "command": ["python"]}}
    with pytest.raises(PreparationError) as refused:
        prepare(runner, spec, origin={"interpreter": {"path": "/gone/python"}})
    assert refused.value.code == "interpreter-gone"
    assert list(tmp_path.iterdir()) == []
    assert runner.refused(refused.value).exit_code == 126


def test_a_function_becomes_its_runner_and_a_call_file(runner: TaskRunner) -> None:
    spec = {
        "workload": {
            "kind": "function",
            "entrypoint": "train:fit",
            "args": [1],
            "kwargs": {"x": None},
        }
    }
    task = prepare(runner, spec, Terminal())
    python, program, call, result = task["argv"]
    assert python == sys.executable
    assert os.path.basename(program) == "function_runner.py"
    assert os.path.isfile(program)
    told = json.loads(Path(call).read_text())
    assert (told["module"], told["function"]) == ("train", "fit")
    assert (told["args"], told["kwargs"]) == ([1], {"x": None})
    assert told["sys_path"] == ["/somewhere"]
    assert not os.path.exists(result)


def test_an_attached_first_attempt_reads_the_terminals_input_a_second_does_not(
    runner: TaskRunner,
) -> None:
    origin = {"attach_id": "1.1"}
    first = prepare(runner, {}, origin=origin)
    again = prepare(runner, {}, origin=origin, attempt=2)
    alone = prepare(runner, {}, origin={})
    assert [t["stdin"] for t in (first, again, alone)] == ["attach", "null", "null"]
    assert [t["unbuffered"] for t in (first, alone)] == [False, True]


# --- data sets --------------------------------------------------------------------------------


def test_a_job_finds_the_data_sets_of_its_worker(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, {}, {"imagenet": str(tmp_path), "coco": str(tmp_path)})
    task = prepare(runner, {"data": ["imagenet"]})
    assert task["set"]["GPULAYER_DATA_IMAGENET"] == str(tmp_path)
    assert "GPULAYER_DATA_COCO" not in task["set"]
    assert not runner.is_plain(assignment({"data": ["imagenet"]}))


def test_a_job_here_finds_what_its_terminal_names_before_what_the_worker_has(
    tmp_path: Path,
) -> None:
    runner = runner_of(tmp_path, {}, {"imagenet": "/", "coco": "/"})
    terminal = Terminal(GPULAYER_DATA_IMAGENET=str(tmp_path))
    task = prepare(runner, {"data": ["imagenet", "coco"]}, terminal)
    assert task["set"]["GPULAYER_DATA_IMAGENET"] == str(tmp_path)
    assert task["set"]["GPULAYER_DATA_COCO"] == "/"


@pytest.mark.parametrize("path", ["", "relative", "/no/such/folder", "/nul\0"])
def test_a_data_set_that_is_gone_is_named_without_its_path(tmp_path: Path, path: str) -> None:
    for terminal in (None, Terminal(GPULAYER_DATA_IMAGENET=path)):
        runner = runner_of(tmp_path, {}, {} if terminal else {"imagenet": path})
        with pytest.raises(PreparationError) as missing:
            prepare(runner, {"data": ["imagenet"]}, terminal)
        assert missing.value.code == "data-missing"
        told = json.dumps(missing.value.to_json())
        assert "imagenet" in told
        assert not path or path not in told
        assert not (tmp_path / "t1").exists()


# --- after the end ----------------------------------------------------------------------------


def test_sweeping_removes_whatever_the_job_left(runner: TaskRunner, tmp_path: Path) -> None:
    task = prepare(runner, {})
    outside = tmp_path / "precious"
    outside.write_text("keep")
    work = Path(task["cwd"])
    (work / "deep" / "er").mkdir(parents=True)
    (work / "deep" / "er" / "file").write_text("x")
    (work / "link").symlink_to(outside)
    (work / "deep").chmod(0o000)
    runner.forget("t1")
    later = SystemClock().now() + WORKSPACE_SECONDS + 60
    assert leftovers.sweep(str(tmp_path), (), later) == 1
    assert not (tmp_path / "t1").exists()
    assert outside.read_text() == "keep"
    runner.forget("t1")


def test_an_agent_that_begins_removes_what_a_dead_one_left_of_tasks(tmp_path: Path) -> None:
    for name in ("t2", "t3", "t4", "t5"):
        (tmp_path / name / "work").mkdir(parents=True)
        (tmp_path / name / "out").mkdir()
        (tmp_path / name / "out" / "half").write_text("x")
    for name in ("t4", "t5"):
        (tmp_path / name / "work" / "notes").write_text("x")
    os.utime(tmp_path / "t5", (0, 0))
    (tmp_path / "other").mkdir()
    (tmp_path / "t6.seg").write_text("the supervisor's")
    leftovers.sweep(str(tmp_path), {"t3"}, SystemClock().now())
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["other", "t3", "t4", "t6.seg"]  # t4: of today, for whoever looks for it


def test_a_full_disk_is_called_by_its_name(runner: TaskRunner) -> None:
    end = runner.refused(OSError(28, "No space left on device"))
    assert (end.outcome, end.reason) == ("failed", "disk_full")


# --- what travels -----------------------------------------------------------------------------


@pytest.fixture
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A bundle (under "bundle") and a data file (under "data"), by digest as well."""
    source = tmp_path_factory.mktemp("source")
    (source / "pkg").mkdir()
    (source / "pkg" / "m.py").write_text("x = 1")
    (source / "run.sh").write_text("#!/bin/sh")
    (source / "run.sh").chmod(0o755)
    found: dict[str, bytes] = {}
    for name, data in (
        ("bundle", b"".join(build_source_bundle(source).chunks())),
        ("data", b"numbers"),
    ):
        digest = hashlib.sha256(data).hexdigest()
        found[digest] = data
        found[name] = digest.encode()
    return found


def address(known: dict[str, bytes], name: str) -> str:
    return f"artifact://sha256/{known[name].decode()}"


def test_a_job_runs_in_a_copy_of_its_source_wherever_it_comes_from(
    tmp_path: Path, known: dict[str, bytes]
) -> None:
    runner = runner_of(tmp_path, known)
    source = address(known, "bundle")
    spec = {"workload": {"kind": "command", "command": ["true"], "source": source}}
    for terminal in (None, Terminal()):
        task = prepare(runner, spec, terminal)
        work = tmp_path / "t1" / "work"
        assert task["cwd"] == str(work)
        assert (work / "pkg" / "m.py").read_text() == "x = 1"
        assert os.access(work / "run.sh", os.X_OK)
        (work / "run.sh").write_text("changed")  # an earlier try of the same task


def test_a_function_is_imported_from_its_bundle(tmp_path: Path, known: dict[str, bytes]) -> None:
    spec = {
        "workload": {
            "kind": "function",
            "entrypoint": "run:main",
            "source": address(known, "bundle"),
        }
    }
    origin = {"function": {"file": "sub/run.py", "sys_path": ["/elsewhere"]}}
    prepare(runner_of(tmp_path, known), spec, origin=origin)
    call = json.loads((tmp_path / "t1" / "call.json").read_text())
    work = str(tmp_path / "t1" / "work")
    assert call["sys_path"] == [work]
    assert call["file"] == f"{work}/sub/run.py"


def test_inputs_are_staged_at_their_paths(tmp_path: Path, known: dict[str, bytes]) -> None:
    data = address(known, "data")
    inputs = [{"artifact": data, "path": "a/b.txt"}, {"artifact": data, "path": "c"}]
    task = prepare(runner_of(tmp_path, known), {"inputs": inputs})
    folder = Path(task["set"]["GPULAYER_INPUT_DIR"])
    assert (folder / "a" / "b.txt").read_bytes() == (folder / "c").read_bytes() == b"numbers"


def test_an_input_folder_is_unpacked_at_its_path_or_not_at_all(
    tmp_path: Path, known: dict[str, bytes]
) -> None:
    runner, source, data = (
        runner_of(tmp_path, known),
        address(known, "bundle"),
        address(known, "data"),
    )
    inputs = [
        {"artifact": source, "path": "a/set", "unpack": True},
        {"artifact": source, "path": "a/as-it-is"},
    ]
    folder = Path(prepare(runner, {"inputs": inputs})["set"]["GPULAYER_INPUT_DIR"])
    assert (folder / "a" / "set" / "pkg" / "m.py").read_text() == "x = 1"
    assert os.access(folder / "a" / "set" / "run.sh", os.X_OK)
    assert (folder / "a" / "as-it-is").read_bytes() == known[source.rpartition("/")[2]]
    with pytest.raises(RefusedError) as refused:
        prepare(runner, {"inputs": [{"artifact": data, "path": "set", "unpack": True}]})
    assert refused.value.code == "bad-bundle"
    assert "the input folder set is refused" in refused.value.message
    assert refused.value.why
    assert not (tmp_path / "t1").exists()


def test_standard_input_is_a_file_of_the_task_that_an_earlier_try_may_have_left(
    tmp_path: Path, known: dict[str, bytes]
) -> None:
    runner, spec = runner_of(tmp_path, known), {"stdin": address(known, "data")}
    for attempt in (1, 2):
        task = prepare(runner, spec, attempt=attempt)
        assert Path(task["stdin"]).read_bytes() == b"numbers"
    assert not runner.is_plain(assignment(spec))
    runner.forget("t1")
    assert not Path(task["stdin"]).exists()


def test_what_is_not_there_or_no_bundle_ends_the_preparation(
    tmp_path: Path, known: dict[str, bytes]
) -> None:
    runner = runner_of(tmp_path, known)
    for source, error, slug in (
        ("artifact://sha256/" + "0" * 64, NotFoundError, "artifact-not-found"),
        (address(known, "data"), RefusedError, "bad-bundle"),
    ):
        spec = {"workload": {"kind": "command", "command": ["true"], "source": source}}
        with pytest.raises(error) as refused:
            prepare(runner, spec)
        assert refused.value.code == slug
        assert not (tmp_path / "t1").exists()
        end = runner.refused(refused.value)
        assert (end.reason, end.error and end.error["slug"]) == ("preparation", slug)


def test_what_a_job_left_besides_its_source_and_outputs_is_listed(
    tmp_path: Path, known: dict[str, bytes]
) -> None:
    runner, plane = runner_of(tmp_path, known), ScriptedPlane()
    spec = {
        "workload": {
            "kind": "command",
            "command": ["true"],
            "source": address(known, "bundle"),
        },
        "outputs": ["models/*.pt"],
    }
    told = prepare(runner, spec)
    work = Path(told["cwd"])
    (work / "models").mkdir()
    (work / "models" / "a.pt").write_text("weights")
    (work / "models" / "log").write_text("1234")
    (work / "run.sh").write_text("changed")
    Path(told["set"]["GPULAYER_OUTPUT_DIR"], "out.txt").write_text("o")
    raw = {"outcome": "succeeded", "reason": "exited", "exit_code": 0}
    end = runner.collect(Collect("t1", 1, raw, told["note"]), plane, lambda texts: texts)
    assert [output["path"] for output in end.outputs] == ["models/a.pt", "out.txt"]
    assert end.left == {"count": 1, "bytes": 4, "paths": ["models/log"]}


def test_patterns_of_a_job_here_name_files_of_its_own_folder(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.pt").write_text("weights")
    (own / "other").write_text("not asked for")
    runner, plane = runner_of(tmp_path, {}), ScriptedPlane()
    told = prepare(runner, {"outputs": ["*.pt"]}, Terminal(), origin={"cwd": str(own)})
    raw = {"outcome": "succeeded", "reason": "exited", "exit_code": 0}
    end = runner.collect(Collect("t1", 1, raw, told["note"]), plane, lambda texts: texts)
    assert [output["path"] for output in end.outputs] == ["a.pt"]
    assert end.left is None


def test_a_workspace_with_something_new_stays_for_a_day(
    tmp_path: Path, known: dict[str, bytes]
) -> None:
    runner, now = runner_of(tmp_path, known), SystemClock().now()
    spec = {
        "workload": {"kind": "command", "command": ["true"], "source": address(known, "bundle")}
    }
    told = prepare(runner, spec)
    runner.forget("t1")
    assert not (tmp_path / "t1").exists()  # nothing but what came
    told = prepare(runner, spec)
    Path(told["cwd"], "new").write_text("x")
    Path(told["set"]["GPULAYER_OUTPUT_DIR"], "out").write_text("came home")
    runner.forget("t1")
    assert os.listdir(tmp_path / "t1") == ["work"]
    assert leftovers.sweep(str(tmp_path), (), now + WORKSPACE_SECONDS - 60) == 0
    assert leftovers.sweep(str(tmp_path), ("t1",), now + WORKSPACE_SECONDS + 60) == 0
    assert leftovers.sweep(str(tmp_path), (), now + WORKSPACE_SECONDS + 60) == 1
    assert not (tmp_path / "t1").exists()


def test_of_the_workspaces_that_stay_the_oldest_go_first_where_they_hold_too_much(
    tmp_path: Path,
) -> None:
    now, size = SystemClock().now(), 64 << 10
    for number in range(1, 5):
        work = tmp_path / f"t{number}" / "work"
        work.mkdir(parents=True)
        (work / "new").write_bytes(os.urandom(size))
        os.utime(tmp_path / f"t{number}", (now, now - 100 + number))
    assert leftovers.sweep(str(tmp_path), {"t1"}, now, most_bytes=2 * size) == 1
    assert sorted(os.listdir(tmp_path)) == ["t1", "t3", "t4"]
    assert leftovers.sweep(str(tmp_path), {"t1"}, now, most_bytes=size // 2) == 2
    assert os.listdir(tmp_path) == ["t1"]
