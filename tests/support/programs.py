"""A user's own programs, written by a test and run with a home of the test's own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from typing import IO

from tests.support.local_home import SECONDS, LocalHome


class Programs:
    """Python programs in the work folder of `home`."""

    def __init__(self, home: LocalHome, python: str = sys.executable) -> None:
        self.home = home
        self.python = python

    def write(self, source: str, name: str = "program.py") -> str:
        path = self.home.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return str(path)

    def run(self, source: str, *argv: str, check: int | None = 0) -> str:
        """What it printed. Its end must be `check`, unless that is None."""
        done = self.run_words([self.write(source), *argv])
        assert check is None or done.returncode == check, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_words(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        """`python WORDS...`, with all that it said."""
        return subprocess.run(
            [self.python, *words],
            cwd=self.home.work,
            env=self.home.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def start(self, source: str, *argv: str, name: str = "program.py") -> Running:
        return Running(
            subprocess.Popen(
                [self.python, "-u", self.write(source, name), *argv],
                cwd=self.home.work,
                env=self.home.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )


class Running:
    """A program that a test talks with, line by line. Leaving the `with` kills it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line that it prints; its complaint if it ends instead."""
        text = _pipe(self.process.stdout).readline()
        assert text, _pipe(self.process.stderr).read()
        return text.strip()

    def go_on(self) -> None:
        """One line for its `input()`."""
        _pipe(self.process.stdin).write("\n")
        _pipe(self.process.stdin).flush()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def end(self) -> tuple[int, str, str]:
        """Exit code, and the rest of both outputs."""
        out, err = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out, err

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=SECONDS)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
