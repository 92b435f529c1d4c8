"""Standard input goes to another machine as it would go to a command here."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support import person as terminal
from tests.support.local_home import SECONDS, slay
from tests.support.travel import Site, travel

pytestmark = pytest.mark.e2e

GPULAYER = (sys.executable, "-m", "gpulayer")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with travel() as site:
        yield site


def jobs(site: Site) -> list[dict[str, object]]:
    return list(site.served.admin.call("GET", "/v1/jobs?all=1")["jobs"])


def test_a_pipe_and_a_file_are_what_the_job_reads(site: Site) -> None:
    person = site.person
    person.put({"f.py": "import sys; print(sum(map(int, sys.stdin)))", "data.csv": "1\n2\n3\n"})
    line = (*GPULAYER, "run", "--", "python", "f.py")
    assert person.reading("4\n5\n", *line).stdout == "9\n"
    with open(person.work / "data.csv", "rb") as file:
        assert person.reading(file.fileno(), *line).stdout == "6\n"
    assert person.reading("4\n5\n", *GPULAYER, "run", "--stdin", "none", "--", "cat").stdout == ""


def test_a_large_one_arrives_whole(site: Site) -> None:
    data = os.urandom(1 << 20) * 20
    done = subprocess.run(
        [*GPULAYER, "run", "--", "sha256sum"], input=data, env=site.person.environ,
        cwd=site.person.work, capture_output=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert done.stderr == b""


def test_each_attempt_and_each_retry_reads_it_from_the_start(site: Site) -> None:
    person = site.person
    script = "cat; test $GPULAYER_ATTEMPT = 2"
    words = ("run", "--name", "again", "--retries", "1", "--", "sh", "-c", script)
    assert person.reading("words\n", *GPULAYER, *words).stdout == "words\nwords\n"
    fresh = person.gpulayer("retry", "-q", "again").stdout.strip()
    person.gpulayer("wait", "-q", fresh)
    assert person.gpulayer("logs", fresh).stdout == "words\nwords\n"


def test_a_loop_over_a_file_loses_nothing_to_the_jobs_in_it(site: Site) -> None:
    person = site.person
    person.put({"list": "one\ntwo\nthree\n"})
    loop = f"while read x; do {sys.executable} -m gpulayer run -- wc -l; done < list"
    assert person.started("sh", "-c", loop).stdout.split() == ["2", "1", "0"]


def test_a_pipe_that_does_not_end_is_spoken_of_and_ctrl_c_submits_nothing(site: Site) -> None:
    before = jobs(site)
    client = subprocess.Popen(
        [*GPULAYER, "run", "--", "cat"], env=site.person.environ, cwd=site.person.work,
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert client.stdin is not None
    assert client.stderr is not None
    client.stdin.write(b"x" * 100)
    client.stdin.flush()
    said = client.stderr.readline()
    assert b"reading standard input to its end: 100 B so far (--stdin none" in said
    client.send_signal(signal.SIGINT)
    assert client.wait(SECONDS) == 130
    client.stdin.close()
    client.stderr.close()
    assert jobs(site) == before


def test_a_client_that_is_killed_while_it_reads_leaves_nothing(site: Site) -> None:
    before = jobs(site)
    (site.person.work / "tmp").mkdir()
    environ = {**site.person.environ, "TMPDIR": str(site.person.work / "tmp")}
    client = subprocess.Popen(
        [*GPULAYER, "run", "--", "cat"], env=environ, cwd=site.person.work,
        stdin=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert client.stdin is not None
    assert client.stderr is not None
    client.stdin.write(b"x" * 100)
    client.stdin.flush()
    assert b"100 B so far" in client.stderr.readline()
    slay(client.pid)
    client.wait(SECONDS)
    client.stdin.close()
    client.stderr.close()
    assert os.listdir(site.person.work / "tmp") == []
    assert jobs(site) == before


def test_a_terminal_is_not_read(site: Site) -> None:
    words = [*GPULAYER, "run", "--", "cat"]
    with terminal.Person(words, site.person.environ, site.person.work) as person:
        person.types("keys for the shell\n")
        assert person.ends() == 0
    assert b"stdin" not in person.screen
    assert b"reading" not in person.screen
