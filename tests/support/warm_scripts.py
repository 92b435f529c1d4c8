"""Scripts through a supervisor, cold and from a template; what a person would see of each."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import Any

from gpulayer.runtime import processes, zygote_imports
from tests.support.supervisor import SupervisorHome, eventually
from tests.support.warm import WAITING, is_template

PACKAGE = {
    "__init__.py": "import json, logging, warnings, random\nfrom heavy import parts\n"
    "warnings.filterwarnings('ignore', message='heavy')\n"
    "import os\nos.environ['HEAVY_LOADED'] = '1'\nVALUE = 7\n",
    "parts.py": "import collections, threading\nclass Part:\n    pass\n",
    "later.py": "LATER = 1\n",
}
"""An installed package, of which templates import the first two files ahead."""
ADDRESS = re.compile(rb"0x[0-9a-f]+")


@dataclass
class Script:
    """`python FLAGS FILE ARGS`, or `-m MODULE` of a folder in which `files` lie."""

    name: str
    text: str
    args: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    module: str = ""
    files: dict[str, str] = field(default_factory=dict)
    environ: tuple[str, ...] = ()
    file: str = "script.py"


@dataclass(frozen=True)
class Seen:
    out: bytes
    err: bytes
    code: Any
    signal: Any
    left: tuple[tuple[str, bytes], ...]


class ScriptHome:
    """Scripts run in the folder of `home`, with one interpreter."""

    def __init__(self, home: SupervisorHome, python: str = sys.executable) -> None:
        self.home = home
        self.python = python
        self.agent = home.connect("agent")
        self.installed = home.folder.parent / "site-packages"
        (self.installed / "heavy").mkdir(parents=True)
        for name, text in PACKAGE.items():
            (self.installed / "heavy" / name).write_text(text)

    def lay(self, script: Script) -> None:
        """An empty folder with the script's files."""
        for path in sorted(self.home.folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        for name, text in {script.file: script.text, **script.files}.items():
            path = self.home.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8", "surrogateescape"))

    def run(
        self, script: Script, *, warm: bool, files: list[list[str]] | None = None, **changes: Any
    ) -> tuple[Seen, str]:
        """What it showed, and why it was cold. `files`: as they are said to have been."""
        self.lay(script)
        envelope = self.home.envelope()
        kept = [e for e in envelope["environ"] if not e.startswith(("PYTHON", "GPULAYER"))]
        envelope["environ"] = [*kept, f"PYTHONPATH={self.installed}", *script.environ]
        given = self.agent.call("envelope", envelope=envelope, keep=False)
        named = ["-m", script.module] if script.module else [script.file]
        argv = [self.python, *script.flags, *named, *script.args]
        task = self.home.task(*argv, **given, **changes) | {"envelope_id": given["envelope_id"]}
        if warm:
            path = str(self.home.folder / script.file)
            task["warm"] = {
                "preload": ["heavy"],
                "sys_path": [],
                "in_place": True,
                "script": {
                    "flags": list(script.flags),
                    "at": len(script.flags) + (2 if script.module else 1),
                    "module": bool(script.module),
                    "named": True,
                    "files": files or [[path, zygote_imports.identity_text(path)]],
                },
            }
        reply = self.agent.call("start", task=task)
        ended = self.home.follow(self.agent, task["task_id"])
        left = [
            (str(path.relative_to(self.home.folder)), path.read_bytes())
            for path in sorted(self.home.folder.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts
        ]
        seen = Seen(
            ADDRESS.sub(b"0x", ended.said(1)),
            ADDRESS.sub(b"0x", ended.said(2)),
            ended.exit["exit_code"],
            ended.exit["signal"],
            tuple(left),
        )
        return seen, str(reply.get("cold", "not asked"))

    def templates(self) -> list[int]:
        """Those that live, and their spares."""
        assert self.home.process is not None
        return [pid for pid in processes.children(self.home.process.pid) if is_template(pid)]

    def forked(self, script: Script, **changes: Any) -> Seen:
        """The first run that is not cold."""
        found: list[tuple[Seen, str]] = []

        def is_forked() -> bool:
            found.append(self.run(script, warm=True, **changes))
            assert found[-1][1] in ("", *WAITING), found[-1][1]
            return not found[-1][1]

        eventually(is_forked)
        return found[-1][0]
