"""The engine as its worker deals with it, where no real one would do: it hangs, lacks rights, lies.

The rest is tried on real engines in `e2e/test_images.py`.
"""

from __future__ import annotations

import json
import marshal
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpulayer.clock import SystemClock
from gpulayer.contracts.images import Reference, parse
from gpulayer.errors import PreparationError
from gpulayer.sdk.waiting import look_again
from gpulayer.worker.environments.building import Patience, TakenBackError, TooLateError
from gpulayer.worker.images import progress, words
from gpulayer.worker.images.container import Box, limits_of, options_of, outermost
from gpulayer.worker.images.engine import Engine, Engines
from gpulayer.worker.images.store import Images
from gpulayer.worker.machine import ThisMachine
from tests.unit.worker.preparing import Terminal, assignment, runner_of

DIGEST = f"sha256:{'cd' * 32}"
IMAGE = f"lab:5000/team/mine@{DIGEST}"
CLOCK = SystemClock()

FAKE = """#!/bin/sh
PATH=/usr/bin:/bin
echo "$*" >> {folder}/asked
case "$1 $2" in
"version "*) echo 9.9;;
"image inspect") cat {folder}/has 2>/dev/null && exit 0; echo 'no such image' >&2; exit 1;;
"pull "*) {pull};;
"rmi "*) rm -f {folder}/has;;
"run "*) {run};;
esac
"""
HAS = f"sha256:{'00' * 32} linux amd64 1000"


class Fake:
    """A program that answers as an engine does, as far as a test goes."""

    def __init__(self, folder: Path, pull: str = "", run: str = "", kind: str = "podman") -> None:
        self.folder = folder
        bin_folder = folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        self.program = bin_folder / kind
        self.program.write_text(FAKE.format(folder=folder, pull=pull or self.puts(), run=run))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.environ = {"PATH": str(bin_folder)}

    def puts(self, found: str = HAS) -> str:
        return f"echo {found} > {self.folder}/has"

    def asked(self, verb: str) -> list[str]:
        lines = (self.folder / "asked").read_text().splitlines()
        return [line for line in lines if line.startswith(verb)]

    def engine(self) -> Engine:
        found = Engines(self.environ).find()
        assert found is not None
        return found

    def images(self, most_bytes: int | None = None) -> Images:
        tasks = self.folder / "tasks"
        tasks.mkdir(exist_ok=True)
        return Images(
            str(self.folder / "images"), str(tasks), CLOCK, Engines(self.environ),
            most_bytes=most_bytes,
        )  # fmt: skip

    def task(self, name: str) -> str:
        folder = self.folder / "tasks" / name
        folder.mkdir()
        return str(folder)


def until(path: Path) -> str:
    """Words of a script that wait for a file."""
    return f"while [ ! -e {path} ]; do sleep 0.05; done;"


def wanted(text: str = IMAGE) -> Reference:
    found = parse(text)
    assert found is not None
    return found


def patience(seconds: float = 60.0, is_wanted: bool = True) -> Patience:
    return Patience.begin(CLOCK, seconds, lambda: is_wanted)


def provided(images: Images, folder: str, text: str = IMAGE, **how: float) -> str:
    return images.provide(
        wanted(text), folder, patience(**how), dict, lambda progress: None
    )[1]  # fmt: skip


# --- which engine -------------------------------------------------------------------------------


def test_an_engine_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    fake.program.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    engines = Engines(fake.environ, seconds=0.2)
    machine = ThisMachine(str(tmp_path), fake.environ, engines=engines)
    assert machine.at_once()["containers"] is None  # not known yet
    assert machine.asks_again
    told = []
    machine.ask(told.append)
    assert (told[0]["containers"], told[0]["containers_note"]) == (
        "",
        "podman, but it does not answer",
    )
    assert machine.asks_again
    Fake(tmp_path, kind="docker")
    machine.ask(told.append)
    assert told[-1]["containers"] == "docker 9.9"
    assert machine.at_once()["containers_note"] == ""


def test_the_workers_owner_chooses_and_a_daemon_elsewhere_is_none(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    Fake(tmp_path, kind="docker")
    for choice, kind in (("", "podman"), ("podman", "podman"), ("docker", "docker")):
        found = Engines({**fake.environ, "GPULAYER_ENGINE": choice}).find()
        assert found is not None
        assert found.kind == kind
    far = Engines(
        {**fake.environ, "GPULAYER_ENGINE": "docker", "DOCKER_HOST": "tcp://10.0.0.9:2375"}
    )
    assert far.find() is None
    assert far.note == "docker, but DOCKER_HOST is another machine"


def test_a_machine_without_engines_knows_it_at_once(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    machine = ThisMachine(str(tmp_path), environ, engines=Engines(environ))
    assert machine.at_once()["containers"] == ""
    assert not machine.asks_again


# --- pulls --------------------------------------------------------------------------------------


def test_jobs_that_come_at_once_pull_once(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    fake = Fake(tmp_path, pull=f"{until(tmp_path / 'go')} {fake.puts()}")
    several = [fake.images() for _ in range(3)]  # as many workers, of one folder
    folders = [fake.task(f"t{number}") for number in range(3)]
    with ThreadPoolExecutor() as pool:
        begun = [pool.submit(provided, *one) for one in zip(several, folders, strict=True)]
        while not (tmp_path / "asked").exists() or not fake.asked("pull"):
            look_again()
        (tmp_path / "go").touch()
        how = [one.result() for one in begun]
    assert sorted(how) == ["here", "here", "pulled"]
    assert len(fake.asked("pull")) == 1
    assert {Path(folder, "image").read_text() for folder in folders} == {"cd" * 32}


def test_a_pull_that_is_taken_back_or_takes_too_long_is_ended(tmp_path: Path) -> None:
    fake = Fake(tmp_path, pull="exec sleep 600")
    images = fake.images()
    with pytest.raises(TooLateError):
        provided(images, fake.task("t1"), seconds=0.3)
    with pytest.raises(TakenBackError):
        images.provide(wanted(), fake.task("t2"), patience(is_wanted=False), dict, str)
    Fake(tmp_path)  # the next attempt begins anew
    assert provided(images, fake.task("t3")) == "pulled"


def test_how_far_a_pull_is_is_told_while_it_lasts(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    layers = "".join(f"echo 'Copying blob sha256:{digit * 64}';" for digit in "ab")
    fake = Fake(
        tmp_path,
        pull=f"{layers} {until(tmp_path / 'go')} {fake.puts()}",
    )
    told: list[str] = []

    def hears(text: str) -> None:
        told.append(text)
        if text:
            (tmp_path / "go").touch()

    fake.images().provide(wanted(), fake.task("t1"), patience(), dict, hears)
    assert (told[0], told[-1]) == ("", "2 layers")


def test_the_least_recently_used_go_and_none_that_was_there_before(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    images = fake.images(most_bytes=1500)
    first, second, third = (f"lab:5000/a@sha256:{digit * 64}" for digit in "123")
    (tmp_path / "has").write_text(HAS)
    assert provided(images, fake.task("t1"), first) == "here"
    for number, text in enumerate((second, third), 2):
        (tmp_path / "has").unlink()
        assert provided(images, fake.task(f"t{number}"), text) == "pulled"
    for digit, at in (("1", 1), ("2", 2), ("3", 3)):
        os.utime(tmp_path / "images" / f"{digit * 64}.json", (at, at))
    (tmp_path / "has").write_text(HAS)
    assert images.trim() == []  # a task uses each
    assert [(one["name"], one["pulled"], one["used_by"]) for one in images.listed()] == [
        (third, True, ["t3"]), (second, True, ["t2"]), (first, False, ["t1"]),
    ]  # fmt: skip
    assert [(one["used_at"], one["bytes"]) for one in images.listed()] == [
        (3, 1000), (2, 1000), (1, 1000),
    ]  # fmt: skip
    os.unlink(tmp_path / "tasks" / "t2" / "image")
    assert images.trim() == [second]
    assert fake.asked("rmi") == [f"rmi {second}"]
    mark = json.loads((tmp_path / "images" / f"{'3' * 64}.json").read_text())
    assert (mark["pulled"], mark["bytes"]) == (True, 1000)


def test_an_image_that_was_removed_meanwhile_is_pulled_again(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    images = fake.images()
    assert provided(images, fake.task("t1")) == "pulled"
    (tmp_path / "has").unlink()
    assert provided(images, fake.task("t2")) == "here"  # it was seen a moment ago
    images.doubt()  # and its container could not be run
    assert provided(images, fake.task("t3")) == "pulled"


def test_an_image_for_another_kind_of_machine_is_told_with_worker_and_phase(
    tmp_path: Path,
) -> None:
    fake = Fake(tmp_path)
    fake = Fake(tmp_path, pull=fake.puts(f"sha256:{'00' * 32} linux riscv64 1000"))
    runner = runner_of(tmp_path, {}, images=fake.images())
    with pytest.raises(PreparationError) as raised:
        runner.prepare(assignment({"image": IMAGE}), Terminal())
    error = raised.value
    assert error.code == "image-failed"
    assert "made for riscv64, and this machine is" in error.message
    assert error.where == "worker lab-1, phase image"
    assert not (tmp_path / "t1").exists()


def test_the_tasks_process_runs_the_container_and_its_ender_is_told(tmp_path: Path) -> None:
    fake = Fake(tmp_path, run="exit 127")
    runner = runner_of(tmp_path, {}, images=fake.images())
    spec = {"image": IMAGE, "env": {"EPOCHS": "3"}}
    task = runner.prepare(assignment(spec), Terminal())
    plan = marshal.loads(Path(task["argv"][-1]).read_bytes())
    assert plan["command"] == ["true"]
    assert plan["image"] == IMAGE
    assert {"EPOCHS", "GPULAYER_JOB_ID", "GPULAYER_FENCE"} <= set(plan["names"])
    assert task["outside"]["argv"] == [
        str(fake.program), "rm", "--force", "--ignore", plan["name"],
    ]  # fmt: skip
    [step] = task["note"]["preparation"]["steps"]
    assert (step["name"], step["note"]) == ("image", "pulled")
    assert runner.waits_long(assignment(spec))
    assert not runner.is_plain(assignment(spec))


def test_a_secret_that_could_only_be_shown_is_refused(tmp_path: Path) -> None:
    fake = Fake(tmp_path, run="exit 127")
    runner = runner_of(tmp_path, {}, images=fake.images())
    terminal = Terminal(DOCKER_KEY="first\nsecond line")
    spec = {"image": IMAGE, "secrets": [{"name": "DOCKER_KEY"}]}
    with pytest.raises(PreparationError) as raised:
        runner.prepare(assignment(spec, envelope_id="e" * 64), terminal)
    assert raised.value.code == "secret-unsafe"


# --- containers ---------------------------------------------------------------------------------

REFUSES_ULIMITS = """
case "$*" in *--ulimit*) exit 127;; esac
echo 'error setting rlimit type 7: operation not permitted' >&2; exit 126"""
REFUSES_GROUPS = """
case "$*" in *--memory*) echo 'cgroup controller memory is not available' >&2; exit 126;; esac
exit 127"""
WARNS_OF_GROUPS = """
case "$*" in *--memory*) echo 'WARNING: no swap limit support' >&2;; esac
exit 127"""


def test_an_engine_that_may_not_raise_limits_is_given_the_workers(tmp_path: Path) -> None:
    fake = Fake(tmp_path, run=REFUSES_ULIMITS)
    trials, engine = fake.images().trials, fake.engine()
    for _ in range(2):
        found = trials.found(engine, IMAGE, [], [], "")
        assert "--ulimit" in found.ulimits
    assert len(fake.asked("run")) == 2  # with its own limits, with ours; then it is known


IGNORES_LIMITS = """
case "$*" in *--memory*)
echo 'Resource limits are not supported and ignored on cgroups V1 rootless systems' >&2;; esac
exit 127"""


@pytest.mark.parametrize("run", [REFUSES_GROUPS, WARNS_OF_GROUPS, IGNORES_LIMITS])
def test_memory_is_not_limited_where_that_fails_or_would_be_said_in_the_jobs_output(
    tmp_path: Path, run: str
) -> None:
    fake = Fake(tmp_path, run=run)
    trials, engine = fake.images().trials, fake.engine()
    assert not trials.found(engine, IMAGE, [], ["--memory", "1b"], "").has_groups
    assert trials.found(engine, IMAGE, [], [], "").has_groups


def test_an_engine_that_cannot_run_a_container_is_told_with_its_words(tmp_path: Path) -> None:
    fake = Fake(tmp_path, run="echo 'Error: CDI device GPU-1 is not known' >&2; exit 125")
    with pytest.raises(PreparationError) as raised:
        fake.images().trials.found(fake.engine(), IMAGE, [], [], "with GPUs")
    assert raised.value.code == "image-failed"
    assert "CDI device GPU-1 is not known" in raised.value.why


def engine(kind: str, version: str) -> Engine:
    return Engine(kind, f"/usr/bin/{kind}", version, {}, Engines({}).__dict__["_ask"])


def test_a_container_sees_exactly_the_gpus_that_its_job_was_given() -> None:
    box = Box("n", {}, ["/t"], "/t", gpus=("GPU-a", "GPU-b"))
    cdi = ["--device", "nvidia.com/gpu=GPU-a", "--device", "nvidia.com/gpu=GPU-b"]
    assert options_of(box, engine("podman", "4.3.1"))[-4:] == cdi
    assert options_of(box, engine("docker", "28.1.0"))[-4:] == cdi
    old = options_of(box, engine("docker", "20.10.24+dfsg1"))
    assert old[-2:] == ["--gpus", '"device=GPU-a,GPU-b"']
    none = options_of(Box("n", {}, ["/t"], "/t"), engine("podman", "4.3.1"))
    assert not {"--device", "--gpus"} & set(none)


def test_folders_are_seen_once_where_they_are() -> None:
    assert outermost(["/a/b", "/a", "/ab", "/a", "/a/b/c"]) == ["/a", "/ab"]
    options = options_of(Box("n", {}, ["/x:y"], "/x:y"), engine("docker", "28"))
    assert "type=bind,source=/x:y,target=/x:y" in options
    with pytest.raises(PreparationError, match="cannot be named"):
        options_of(Box("n", {}, ["/x:y,z"], "/"), engine("docker", "28"))


def test_memory_and_cores_are_limits_only_where_they_are_named() -> None:
    assert limits_of(Box("n", {}, [], "/")) == []
    limits = limits_of(Box("n", {}, [], "/", memory_gb=0.5, cpu_cores=1.5))
    assert limits == ["--memory", "500000000b", "--cpus", "1.5"]


# --- words --------------------------------------------------------------------------------------

PULLS = [
    ("Error: initializing source docker://lab/a@sha256:0: reading manifest: manifest unknown",
     "image-failed", "is not at lab"),
    ("Error response from daemon: manifest for lab/a@sha256:0 not found: manifest unknown",
     "image-failed", "is not at lab"),
    ("denied: requested access to the resource is denied", "image-failed", "is not shown"),
    ("Error: unauthorized: authentication required", "image-failed", "is not shown"),
    ("write /var/lib/docker/tmp/x: no space left on device", "disk-full", "has no room"),
    ("dial tcp 10.0.0.1:443: connect: connection refused", "image-failed", "cannot be reached"),
    ("dial tcp: lookup lab: no such host", "image-failed", "cannot be reached"),
    ("Error: copying blob: Digest did not match, expected sha256:1, got sha256:2", "image-failed",
     "other bytes"),
    ("filesystem layer verification failed for digest sha256:1", "image-failed", "other bytes"),
    ("no matching manifest for linux/amd64 in the manifest list entries", "image-failed",
     "not made for this kind"),
    ("no image found in manifest list for architecture amd64", "image-failed",
     "not made for this kind"),
    ("something new", "image-failed", "could not be pulled"),
]  # fmt: skip


@pytest.mark.parametrize(("output", "slug", "what"), PULLS)
def test_a_pull_that_failed_is_told_by_its_cause(output: str, slug: str, what: str) -> None:
    meaning = words.of_pull(output, "lab", "podman")
    assert meaning.slug == slug
    assert what in meaning.what


def test_layers_are_counted_as_each_engine_prints_them() -> None:
    docker = "1: Pulling from a\n" + "".join(
        f"{n * 12}: Pulling fs layer\n{n * 12}: Verifying Checksum\n" for n in "abc"
    )
    assert progress.of(docker) == "0 of 3 layers"
    assert progress.of(docker + "aaaaaaaaaaaa: Pull complete\n") == "1 of 3 layers"
    podman = "Trying to pull a...\nCopying blob sha256:" + "a" * 64 + "\n"
    assert progress.of(podman) == "1 layer"
    assert progress.of(podman + "Copying config sha256:" + "b" * 64) == "1 layer, unpacking"
    assert progress.of("Trying to pull a...\n") == ""
