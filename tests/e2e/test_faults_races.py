"""Terminals that start and stop the same plane at once: no job is lost, cancelled or run twice."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e


def test_stopping_while_others_run_jobs_ends_none_of_them() -> None:
    with LocalHome() as home:
        wrong: list[subprocess.CompletedProcess[bytes]] = []

        def cli(*words: str) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(
                [sys.executable, "-m", "gpulayer", *words],
                env=home.environ,
                cwd=home.work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )

        def work(name: str) -> None:
            for number in range(8):
                text = f"{name}{number}"
                done = cli("run", "--", "sh", "-c", f"echo {text} >> done; echo {text}")
                if (done.returncode, done.stdout) != (0, f"{text}\n".encode()):
                    wrong.append(done)

        def stop() -> None:
            for _ in range(10):
                done = cli("stop")
                refused = done.returncode == 1 and b"job-not-finished" in done.stderr
                if done.returncode and not refused:
                    wrong.append(done)

        crowd = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        crowd.append(threading.Thread(target=stop))
        for one in crowd:
            one.start()
        for one in crowd:
            one.join()
        assert wrong == []
        said = (home.work / "done").read_text().split()
        assert sorted(said) == sorted(f"{name}{n}" for name in "ab" for n in range(8))
        assert cli("stop").returncode == 0
        assert home.strays() == []
