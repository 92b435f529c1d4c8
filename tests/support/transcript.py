"""Console blocks as tests: their commands are run in one home, and what they print is compared.

    $ gpulayer run -- sh -c 'exit 3'      a command; lines that begin with `> ` go on with it
    $ echo $?                             variables, folder and $? are kept from line to line
    3                                     what it printed, stdout and stderr as they came
    $ gpulayer run -- sleep 100
    ^C ...                                Ctrl-C once its job runs

What differs from run to run is written as in `settled`. In documents a line `...` stands for any
lines, and `...` within a line for any text.
"""

from __future__ import annotations

import getpass
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gpulayer.slugs import SLUGS
from tests.support.local_home import SECONDS, LocalHome

PIECE = re.compile(r"^\$ ", re.MULTILINE)
ID = re.compile(r"(?<![-\w])([A-Za-z0-9_][\w.-]*?)-([0-9a-hjkmnp-tv-z]{8})(?![-\w])")
WORDS = frozenset(SLUGS)
"""What looks like a job's id and is none."""
KEEP = (
    "{ pwd; declare -px; } > \"$STATE.new\"; mv \"$STATE.new\" \"$STATE\""
)  # fmt: skip


@dataclass
class Step:
    command: str
    printed: str

    @classmethod
    def all_of(cls, text: str) -> list[Self]:
        """The commands of a console block, in order. What comes before the first is left out."""
        found = []
        for piece in PIECE.split(text)[1:]:
            first, *rest = piece.rstrip("\n").split("\n")
            while rest and (rest[0] == ">" or rest[0].startswith("> ")):
                first += "\n" + rest.pop(0)[2:]
            while rest and not rest[-1].strip():
                rest.pop()
            found.append(cls(first, "\n".join(rest)))
        return found

    def text(self) -> str:
        command = self.command.replace("\n", "\n> ")
        return f"$ {command}\n" + (f"{self.printed}\n" if self.printed else "")


class Session:
    """A terminal's worth of state in a home: folder, variables, the last exit code."""

    def __init__(self, home: LocalHome) -> None:
        self.home = home
        self._ids: dict[str, str] = {}
        self._status = 0
        self._state = home.folder / "state"
        tools = home.folder / "bin"
        tools.mkdir()
        (home.folder / "person").mkdir()
        script = tools / "gpulayer"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpulayer "$@"\n')
        script.chmod(0o755)
        self.environ = {
            **home.environ,
            "GPULAYER_ENGINE": "none",  # whatever this machine has for images
            "PATH": f"{tools}:{Path(sys.executable).parent}:{home.environ['PATH']}",
            "STATE": str(self._state),
            "LC_ALL": "C.UTF-8",
            "TOOLS": str(Path(__file__).parent),
            "HOME": str(home.folder / "person"),
        }

    def run(self, step: Step) -> str:
        """What the command prints, as it is. `-ID` in it stands for the newest job of that name."""
        command = re.sub(r"([\w.-]+?)-ID\b", lambda m: self._ids[m[1]], step.command)
        for name, folder in (("WORK", self.home.work), ("FOLDER", self.home.folder)):
            command = re.sub(rf"\b{name}\b", str(folder), command)
        words = (
            'cd "$(head -1 "$STATE")" && eval "$(tail -n +2 "$STATE")"'
            if (self._state.exists())
            else ":"
        )
        script = f"{words}\n(exit {self._status})\n{command}\ns=$?\n{KEEP}\nexit $s"
        process = subprocess.Popen(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.home.work,
            env=self.environ,
            start_new_session=True,
        )
        if step.printed.startswith("^C"):
            self.home.until_running(1)
            os.killpg(process.pid, signal.SIGINT)
        try:
            printed, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired as silence:
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            raise AssertionError(f"no end: {command}: {printed!r}") from silence
        self._status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        text = printed.decode(errors="replace").rstrip("\n")
        for found in ID.finditer(text):
            if found[0] not in WORDS:
                self._ids[found[1]] = found[0]
        return f"^C\n{text}".rstrip("\n") if step.printed.startswith("^C") else text


def settled(text: str, home: LocalHome) -> str:
    """Text with what differs from run to run and from machine to machine replaced by its kind."""
    host = re.escape(os.uname().nodename)
    me = re.escape(f"{getpass.getuser()}-{os.uname().nodename.partition('.')[0]}")
    for pattern, kind in (
        (re.escape(str(home.work)), "WORK"),
        (re.escape(str(home.folder)), "FOLDER"),
        (r"\bgpl-[0-9a-f]{16}\b", "gpl-HASH"),
        (r"\b[0-9a-z]{16}-sha256\.", "CODE-sha256."),
        (r"\bsha256\.[0-9a-f]{64}\b", "sha256.PIN"),
        (r"\b127\.0\.0\.1:\d+\b", "127.0.0.1:PORT"),
        (r"(?m)\bhas none \(.*\)$", "has none (WHY)"),
        (r"(?m)^(\S+): no GPU found.*$", r"\1: (WHY)"),
        (rf"'{me}'", "'USER-HOST'"),
        (rf"(?<![\w.-]){host}(?![\w.-])", "HOST"),
        (ID.pattern, _id),
        (r"\b\d{2}:\d{2}:\d{2}\b", "HH:MM:SS"),
        (r"\b\d+(\.\d)? s\b", "N.N s"),
        (r"\b\d+ of \d+\b", "N of N"),
        (r"\b\d+ in all", "N in all"),
        (r"\b\d+(\.\d+)? [kMG]?B\b", "N GB"),
        (r"\b3\.\d+\.\d+\b", "3.X.Y"),
        (r"(?<=\S) {2,}", "  "),
    ):
        text = re.sub(pattern, kind, text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _id(found: re.Match[str]) -> str:
    return found[0] if found[0] in WORDS else f"{found[1]}-ID"


def agrees(wanted: str, printed: str) -> bool:
    """Whether a document's text stands for what was printed. Runs of spaces count as one."""
    pattern = ""
    for line in _plain_lines(wanted):
        words = ".*".join(map(re.escape, line.split("...")))
        pattern += r"(?:.*\n)*" if line == "..." else words + r"\n"
    text = "".join(f"{line}\n" for line in _plain_lines(printed))
    return re.fullmatch(pattern, text) is not None


def _plain_lines(text: str) -> list[str]:
    return [re.sub(r" +", " ", line).rstrip() for line in text.split("\n")] if text else []


def console_blocks(document: Path) -> list[str]:
    """The text of each fenced `console` block of a Markdown file."""
    return re.findall(r"^```console\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
