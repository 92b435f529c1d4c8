"""Terminals that start and stop the same plane at once: no job is lost, cancelled or run twice,
and what each says is seen where it was asked for."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tests.support.local_home import LocalHome

pytestmark = pytest.mark.e2e

SUBMITTED = """
import sys
import gpulayer as gl
with gl.connect() as client:
    for text in sys.argv[1:]:
        job = client.submit(["sh", "-c", f"echo {text} >> done; echo {text}"])
        job.wait()
        print(*client.log_lines(job.id))
"""
JOBS = 4
Done = subprocess.CompletedProcess


def crowded(home: LocalHome, *works: Callable[[Callable[..., Done[bytes]]], list[Done[bytes]]]):
    """What went wrong in `works`, each in a terminal of its own, while another one only stops."""
    wrong: list[object] = []
    working = [threading.Event() for _ in works]

    def cli(*words: str, stdin: bytes = b"") -> Done[bytes]:
        return home.typed(sys.executable, "-m", "gpulayer", *words, input=stdin)

    def work(number: int) -> None:
        try:
            wrong.extend(works[number](cli))
        except BaseException as error:  # a thread's error would end nothing
            wrong.append(error)
        finally:
            working[number].set()

    def stop() -> None:
        while not all(over.is_set() for over in working):
            done = cli("stop")
            refused = done.returncode == 1 and b"job-not-finished" in done.stderr
            if done.returncode and not refused:
                wrong.append(done)

    crowd = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
    crowd.append(threading.Thread(target=stop))
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert cli("stop").returncode == 0
    assert home.strays() == []
    return wrong


def unlike(done: Done[bytes], text: str) -> list[Done[bytes]]:
    return [] if (done.returncode, done.stdout) == (0, f"{text}\n".encode()) else [done]


def attached(cli: Callable[..., Done[bytes]]) -> list[Done[bytes]]:
    """It reads its standard input, which it has from this terminal alone."""
    wrong = []
    for number in range(JOBS):
        text = f"a{number}"
        done = cli("run", "--", "sh", "-c", "read x; echo $x >> done; echo $x", stdin=text.encode())
        wrong += unlike(done, text)
    return wrong


def queued(cli: Callable[..., Done[bytes]]) -> list[Done[bytes]]:
    wrong = []
    for number in range(JOBS // 2):
        text = f"q{number}"
        given = cli("submit", "--", "sh", "-c", f"echo {text} >> done; echo {text}")
        job = given.stdout.decode().strip()
        wrong += [done for done in (given, cli("wait", job)) if done.returncode]
        wrong += unlike(cli("logs", job), text)
    return wrong


def said(home: LocalHome) -> list[str]:
    return sorted((home.work / "done").read_text().split())


def test_stopping_while_others_stay_with_their_jobs_ends_none_of_them() -> None:
    with LocalHome() as home:
        assert crowded(home, attached, attached) == []
        assert said(home) == sorted(f"a{n}" for n in range(JOBS) for _ in range(2))


def test_stopping_while_others_queue_jobs_ends_none_of_them() -> None:
    def program(cli: object) -> list[Done[bytes]]:
        texts = [f"p{number}" for number in range(JOBS)]
        done = home.typed(sys.executable, "-c", SUBMITTED, *texts)
        return unlike(done, "\n".join(texts))

    with LocalHome() as home:
        assert crowded(home, queued, program) == []
        expected = [f"q{n}" for n in range(JOBS // 2)] + [f"p{n}" for n in range(JOBS)]
        assert said(home) == sorted(expected)
