"""Checkpoints of a plain script: whatever is killed, at most an interval and a moment is redone.

`GPULAYER_TEST_CHECKPOINT_KILLS` says how often it is killed; 200 is the long form.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_home import LocalHome, slay
from tests.support.travel import Person, travel

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("GPULAYER_TEST_CHECKPOINT_KILLS", "6"))
INTERVAL = 1.0
MOMENT = 3.0
KILLS_OF_A_JOB = 3
"""The wait before the next attempt doubles with each."""

# Saves what it has done by a rename, as one should, and half a file beside it, as one should not.
SCRIPT = """
import os, sys, time
folder, story = os.environ["GPULAYER_CHECKPOINT_DIR"], sys.argv[1]
attempt, state = os.environ["GPULAYER_ATTEMPT"], os.path.join(folder, "state")
done = 0
if os.path.exists(state):
    with open(state) as file:
        done, check = map(int, file.read().split())
    assert check == done * 7, "a torn checkpoint"
def say(word):
    with open(story, "a") as file:
        file.write(f"{attempt} {word} {done} {time.time()} {os.getpid()}\\n")
say("begins")
while not os.path.exists(story + ".enough"):
    time.sleep(0.02)
    done += 1
    with open(os.path.join(folder, "half"), "w") as file:
        file.write(str(done))
        file.flush()
        time.sleep(0.002)
        file.write(f" {done * 7}")
    os.replace(os.path.join(folder, "half"), state)
    say("did")
"""


class Told:
    """What a job has written down of itself, outside its checkpoint folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def enough(self) -> None:
        """It may end now."""
        self.path.with_name(self.path.name + ".enough").touch()

    def lines(self) -> list[tuple[int, str, int, float, int]]:
        if not self.path.exists():
            return []
        rows = [line.split() for line in self.path.read_text().splitlines()]
        return [(int(a), w, int(n), float(t), int(p)) for a, w, n, t, p in rows]

    def attempts(self) -> int:
        return max((line[0] for line in self.lines()), default=0)

    def redone(self) -> list[float]:
        """Of each attempt but the first: seconds of work before it that were done in vain."""
        lines, found = self.lines(), []
        for attempt in range(2, self.attempts() + 1):
            before = [line for line in lines if line[0] == attempt - 1]
            (begun,) = [line[2] for line in lines if line[0] == attempt and line[1] == "begins"]
            kept_at = max(line[3] for line in before if line[2] <= begun)
            found.append(before[-1][3] - kept_at)
        return found


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        (home.work / "train.py").write_text(SCRIPT)
        yield home


def gpulayer(home: LocalHome, *words: str) -> str:
    done = home.typed(sys.executable, "-m", "gpulayer", *words)
    assert done.returncode == 0, done
    return str(done.stdout.decode().strip())


def begun(home: LocalHome, name: str, *, retries: int = KILLS_OF_A_JOB) -> Told:
    told = Told(home.work / f"{name}.story")
    retry = ("--retries", str(retries), "--retry-on", "failed", "--retry-on", "worker_lost")
    keep = ("--checkpoint", f"ck-{name}:{INTERVAL:g}s", "--cpus", "0.1")
    line = ("--", "python", "train.py", str(told.path))
    gpulayer(home, "submit", "-q", "--name", name, *retry, *keep, *line)
    return told


def goes_on(home: LocalHome, told: Told, attempt: int, seconds: float) -> int:
    """Wait until that attempt has worked so long; its process."""
    found: list[int] = []

    def there() -> bool:
        mine = [line for line in told.lines() if line[0] == attempt]
        found[:] = [line[4] for line in mine]
        return bool(mine) and mine[-1][3] - mine[0][3] >= seconds

    home.until(there)
    return found[0]


def ended(home: LocalHome, told: Told, name: str) -> dict[str, Any]:
    told.enough()
    gpulayer(home, "wait", name)
    job: dict[str, Any] = json.loads(gpulayer(home, "status", name, "--json"))["job"]
    return job


def test_whatever_is_killed_at_most_an_interval_and_a_moment_is_redone(home: LocalHome) -> None:
    draws = random.Random(7)
    count = -(-KILLS // KILLS_OF_A_JOB)
    lives = [
        [draws.uniform(0.5, 3.5 * INTERVAL) for _ in range(KILLS_OF_A_JOB)] for _ in range(count)
    ]

    def torture(number: int) -> list[float]:
        name = f"job{number}"
        told = begun(home, name)
        for attempt, seconds in enumerate(lives[number], 1):
            slay(goes_on(home, told, attempt, seconds))
            if number == 0:  # its neighbours live on without it
                home.kill(("agent", "plane")[attempt % 2])
        job = ended(home, told, name)
        assert (job["state"], told.attempts()) == ("succeeded", KILLS_OF_A_JOB + 1)
        return told.redone()

    with ThreadPoolExecutor(4) as pool:
        redone = [seconds for found in pool.map(torture, range(count)) for seconds in found]
    assert len(redone) >= KILLS
    worst = max(redone)
    print(f"{len(redone)} kills: redone {sum(redone) / len(redone):.2f} s, worst {worst:.2f} s")
    assert worst <= INTERVAL + MOMENT


def test_a_supervisor_that_dies_costs_no_more(home: LocalHome) -> None:
    told = begun(home, "train", retries=2)
    goes_on(home, told, 1, 2.5 * INTERVAL)
    home.kill("supervisor")
    goes_on(home, told, 2, 0.1)
    job = ended(home, told, "train")
    assert (job["state"], job["attempt"], job["checkpoint"]["attempt"]) == ("succeeded", 2, 1)
    assert max(told.redone()) <= INTERVAL + MOMENT
    story = gpulayer(home, "events", "train")
    assert "checkpoint   1 file, " in story
    assert "(of attempt 1: 1 file, " in story
    assert "of attempt 1" in gpulayer(home, "status", "train").split("checkpoint:")[1]
    aside = [path.name for path in home.work.iterdir() if path.name.startswith(".ck-train.before")]
    assert len(aside) == 1, "what came after the checkpoint is moved aside"


@pytest.mark.parametrize("point", ["agent-says-checkpoint", "agent-heard-checkpoint"])
def test_an_agent_that_dies_while_it_tells_of_one_tells_again(home: LocalHome, point: str) -> None:
    token = home.folder / "armed"
    token.touch()
    home.environ["GPULAYER_CRASH_AT"] = f"{point}={token}"
    told = begun(home, "train")
    home.until(lambda: not token.exists())

    def job() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(gpulayer(home, "status", "train", "--json"))["job"]
        return found

    home.until(lambda: (job()["checkpoint"] or {}).get("at", 0.0) > told.lines()[0][3] + 2.0)
    assert (job()["state"], job()["attempt"]) == ("running", 1)
    assert ended(home, told, "train")["state"] == "succeeded"


def test_a_job_that_is_stopped_in_time_goes_on_from_what_it_saved_in_its_grace(
    home: LocalHome,
) -> None:
    (home.work / "graceful.py").write_text(
        "import os, signal, sys, time\n"
        "path = os.path.join(os.environ['GPULAYER_CHECKPOINT_DIR'], 'saved')\n"
        "if os.path.exists(path): print('goes on:', open(path).read()); sys.exit()\n"
        "def save(*_):\n"
        "    open(path, 'w').write('in its grace')\n"
        "    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "time.sleep(600)\n"
    )
    words = ("--retries", "1", "--retry-on", "timed_out", "--timeout", "1s")
    done = home.typed(
        sys.executable, "-m", "gpulayer", "run", *words, "--checkpoint", "ck", "--",
        "python", "graceful.py",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"goes on: in its grace\n")


@pytest.mark.parametrize("harm", ["other bytes", "gone"])
def test_of_a_newest_that_is_damaged_on_the_disk_the_one_before_is_put_back(
    home: LocalHome, harm: str
) -> None:
    """Damaged in the store of the plane itself, after it was taken for whole."""
    (home.work / "steps.py").write_text(
        "import os, time\n"
        "path = os.path.join(os.environ['GPULAYER_CHECKPOINT_DIR'], 'state')\n"
        "if os.path.exists(path): print('goes on:', open(path).read()); raise SystemExit\n"
        "for word in ('first', 'second', 'lost'):\n"
        "    with open(path + '.new', 'w') as file: file.write(word * 1000)\n"
        "    os.replace(path + '.new', path)\n"
        "    while not os.path.exists(word): time.sleep(0.02)\n"
        "os.abort()\n"
    )
    words = ("--retries", "1", "--retry-on", "failed", "--name", "steps")
    line = ("--checkpoint", "ck:1s", "--", "python", "steps.py")
    gpulayer(home, "submit", "-q", *words, *line)

    def is_kept(word: str) -> bool:
        found = json.loads(gpulayer(home, "status", "steps", "--json"))["job"]["checkpoint"]
        return found is not None and found["size"] == len(word) * 1000

    for word in ("first", "second"):
        home.until(lambda word=word: is_kept(word))
        if word == "second":
            digest = hashlib.sha256(word.encode() * 1000).hexdigest()
            (stored,) = (home.folder / "home" / "artifacts").rglob(digest)
            stored.chmod(0o600)
            if harm == "gone":
                stored.unlink()
            else:
                stored.write_bytes(b"x" * len(word) * 1000)
            (home.work / "lost").touch()  # at once: nothing more is kept
        (home.work / word).touch()
    gpulayer(home, "wait", "steps")
    assert home.log("steps").startswith(b"goes on: firstfirst"), home.log("steps")[:200]
    job = json.loads(gpulayer(home, "status", "steps", "--json"))["job"]
    assert (job["state"], job["attempt"]) == ("succeeded", 2)


def test_the_next_attempt_is_on_another_machine_that_never_saw_the_first(tmp_path: Path) -> None:
    story = tmp_path / "story"
    with travel() as site, Person() as other:
        other.gpulayer("join", site.served.link(site.served.invite()), "--name", "den")
        site.person.put({"train.py": SCRIPT})
        words = ("--retries", "2", "--checkpoint", f"ck:{INTERVAL:g}s", "--name", "train")
        site.person.gpulayer("submit", *words, "--", "python", "train.py", str(story))
        told = Told(story)

        def job() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(
                site.person.gpulayer("status", "train", "--json").stdout
            )["job"]
            return found

        site.person.until(lambda: job()["checkpoint"])
        first = job()["worker"]
        {"lab": site.worker, "den": other}[first].gpulayer("leave", "--now")
        goes_on(site.person, told, 2, 0.1)
        told.enough()
        site.person.gpulayer("wait", "train")
        assert (job()["state"], job()["worker"] != first) == ("succeeded", True)
        assert max(told.redone()) <= INTERVAL + MOMENT
        if first == "lab":
            other.gpulayer("leave")
            site.worker.gpulayer("join", site.served.link(site.served.invite()), "--name", "lab")
