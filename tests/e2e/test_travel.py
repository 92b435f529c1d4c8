"""Code and data go to another machine and come back: over TLS, to a worker that joined."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pytest

from tests.support.local_home import slay
from tests.support.travel import Site, travel

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with travel() as site:
        yield site


TRAIN = """
import os, pathlib, sys
here = pathlib.Path(os.environ["GPULAYER_OUTPUT_DIR"])
data = pathlib.Path(os.environ["GPULAYER_INPUT_DIR"], "numbers", "data.txt").read_text()
from lib.model import LAYERS
(here / "result.txt").write_text(f"{data} {LAYERS} {sys.argv[1]}")
pathlib.Path("runs").mkdir()
pathlib.Path("runs/a.pt").write_text("weights")
pathlib.Path("runs/log.txt").write_text("left behind")
"""


def test_source_inputs_and_outputs_travel(site: Site) -> None:
    person = site.person
    person.put({
        "train.py": TRAIN, "lib/model.py": "LAYERS = 3", "data.txt": "42",
        "run.sh": "#!/bin/sh\nexec python3 -c pass\n", ".venv/pyvenv.cfg": "",
    })  # fmt: skip
    plan = person.gpulayer(
        "plan", "--input", "data.txt:numbers/data.txt", "--", "python", "train.py"
    )
    assert "sends:   bundle: 4 files" in plan.stdout
    assert ".venv/ (virtual environment)" in plan.stdout
    assert site.served.admin.call("GET", "/v1/jobs?all=1")["jobs"] == []
    person.gpulayer(
        "run", "--input", "data.txt:numbers/data.txt", "-o", "runs/*.pt", "--get=home", "--name",
        "travels", "--", "python", "train.py", "fast",
    )  # fmt: skip
    assert (person.work / "home" / "result.txt").read_text() == "42 3 fast"
    assert (person.work / "home" / "runs" / "a.pt").read_text() == "weights"
    assert sorted(os.listdir(person.work / "home")) == ["result.txt", "runs"]
    shown = person.gpulayer("status", "travels").stdout
    assert "1 file stays in its workspace for a day (11 B): runs/log.txt" in shown
    kept = list(site.tasks.glob("*/*/runs/log.txt"))
    assert [path.read_text() for path in kept] == ["left behind"]


def test_a_second_run_sends_nothing_and_a_change_sends_the_change(site: Site) -> None:
    person = site.person
    large = "x" * 1_000_000
    person.put({"many/a.txt": large, "many/b.txt": large, "show.py": "print(open('c').read())"})
    person.put({"c": "one"})
    stored = site.served.folder / "home" / "artifacts"

    def run() -> tuple[str, int]:
        before = {path: path.stat().st_mtime_ns for path in stored.rglob("*") if path.is_file()}
        done = person.gpulayer("run", "--", "python", "show.py")
        after = [path for path in stored.rglob("*") if path.is_file()]
        return done.stdout, len([path for path in after if path not in before])

    assert run() == ("one\n", 1)
    assert run() == ("one\n", 0)
    person.put({"c": "two"})
    assert run() == ("two\n", 1)


def test_a_function_brings_its_folder_or_its_package(site: Site) -> None:
    person = site.person
    person.put({
        "pkg/__init__.py": "", "pkg/deep/__init__.py": "", "pkg/deep/numbers.py": "SEVEN = 7",
        "pkg/work.py": (
            "import gpulayer as gl\n"
            "@gl.remote()\n"
            "def times(n):\n"
            "    import os\n"
            "    from pkg.deep.numbers import SEVEN\n"
            "    return [n * SEVEN, sorted(os.listdir('.'))]\n"
        ),
        "script.py": (
            "import json, gpulayer as gl\n"
            "from pkg.work import times\n"
            "from pkg.deep.numbers import SEVEN\n"
            "@gl.remote()\n"
            "def plus(n):\n"
            "    return n + SEVEN\n"
            "if __name__ == '__main__':\n"
            "    print(json.dumps([times.remote(6), plus.remote(1), list(plus.map([1, 2]))]))\n"
        ),
    })  # fmt: skip
    done = person.started(sys.executable, "script.py")
    assert json.loads(done.stdout) == [[42, ["pkg"]], 8, [8, 9]]


def test_no_source_is_sent_where_none_is_named_or_wanted(site: Site) -> None:
    person = site.person
    person.put({"here.txt": "x"})
    assert person.gpulayer("run", "--", "ls").stdout == ""
    assert person.gpulayer("run", "--source", "none", "--", "ls").stdout == ""
    person.put({"other/there.txt": "x"})
    assert person.gpulayer("run", "--source", "other", "--", "ls").stdout == "there.txt\n"


def test_the_home_folder_is_not_sent_by_chance(site: Site) -> None:
    person = site.person
    (person.work / "x.py").write_text("")
    person.environ["HOME"] = str(person.work)
    try:
        words = ("run", "--", "python", "x.py")
        refused = person.gpulayer(*words, check=125).stderr
        assert "error[source-refused]: your home folder is not sent as source" in refused
        assert "gpulayer run --source none -- python x.py" in refused
    finally:
        person.environ["HOME"] = str(person.folder)


def test_a_hostile_bundle_ends_the_job_and_leaves_nothing(site: Site) -> None:
    import zipfile

    person = site.person
    with zipfile.ZipFile(person.work / "evil.zip", "w") as archive:
        archive.writestr("../../evil", "x")
    address = person.gpulayer("put", "-q", "evil.zip").stdout.strip()
    refused = person.gpulayer("run", "--source", address, "--", "true", check=126).stderr
    assert "../../evil: its name leaves the job directory" in refused
    assert not list(site.worker.folder.rglob("evil"))


def test_a_folder_is_an_input_and_the_same_one_is_not_sent_again(site: Site) -> None:
    person = site.person
    person.put({"set/a.txt": "one\n", "set/deep/b.txt": "two\n", ".gitignore": "set/\n"})
    stored = site.served.folder / "home" / "artifacts"

    def run() -> tuple[str, int]:
        before = {path: path.stat().st_mtime_ns for path in stored.rglob("*") if path.is_file()}
        script = "cd $GPULAYER_INPUT_DIR && find . -type f | sort | xargs cat"
        said = person.gpulayer("run", "--input", "set:data/set", "--", "sh", "-c", script).stdout
        return said, len([path for path in stored.rglob("*/*") if path not in before])

    assert run() == ("one\ntwo\n", 1)
    assert run() == ("one\ntwo\n", 0)
    person.put({"set/deep/b.txt": "three\n"})
    assert run() == ("one\nthree\n", 1)


def test_a_hostile_input_folder_ends_the_job_and_leaves_nothing(site: Site) -> None:
    import zipfile

    person = site.person
    with zipfile.ZipFile(person.work / "input.zip", "w") as archive:
        archive.writestr("../../escaped", "x")
    address = person.gpulayer("put", "-q", "input.zip").stdout.strip()
    job = {
        "workload": {"kind": "command", "command": ["true"]},
        "inputs": [{"artifact": address, "path": "set", "unpack": True}],
        "placement": {"target": "remote"},
    }
    person.put({"job.json": json.dumps(job)})
    job_id = person.gpulayer("submit", "-q", "-f", "job.json").stdout.strip()
    person.gpulayer("wait", "-q", job_id, check=126)
    said = person.gpulayer("status", job_id).stdout
    assert "the input folder set is refused, and nothing of it was unpacked" in said
    assert not list(site.worker.folder.rglob("escaped"))


def test_an_input_that_the_plane_lost_ends_the_job_with_its_name(site: Site) -> None:
    missing = "artifact://sha256/" + "0" * 64
    refused = site.person.gpulayer("run", "--input", f"{missing}:x", "--", "true", check=125)
    assert "error[artifact-not-found]" in refused.stderr


def test_a_worker_that_dies_while_it_stages_begins_again(site: Site) -> None:
    person = site.person
    person.put({"slow.py": "open('ran', 'x'); print('once')", "filler": "x" * 2_000_000})
    slay(site.worker.joined_pid("agent"))
    assert person.gpulayer("run", "--", "python", "slow.py").stdout == "once\n"


def test_get_leaves_nothing_half_done(site: Site) -> None:
    person = site.person
    script = "for n in 1 2 3; do echo $n > $GPULAYER_OUTPUT_DIR/$n; done"
    person.gpulayer("run", "--name", "three", "--", "sh", "-c", script)
    (person.work / "taken").mkdir()
    (person.work / "taken" / "3").write_text("mine")
    refused = person.gpulayer("get", "three", "taken", check=1).stderr
    assert "error[already-there]" in refused
    assert os.listdir(person.work / "taken") == ["3"]
    (person.work / "outside").mkdir()
    (person.work / "ways").mkdir()
    assert person.gpulayer("get", "three:2", "-").stdout == "2\n"
    person.gpulayer("get", "three", "got")
    assert sorted(os.listdir(person.work / "got")) == ["1", "2", "3"]
