"""The shape of the house: layers, types, lint, sizes, names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gpulayer"
LONGEST = 400
LONG = 320
BANNED_NAMES = {"utils", "common", "helpers", "misc", "manager", "handler", "service"}
BIN = Path(sys.executable).parent


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "src", "tests", "benchmarks", "examples"],
        ["ruff", "format", "--check", "src", "tests", "benchmarks", "examples"],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=["lint", "format", "types", "layers"],
)
def test_the_tools_find_nothing(command: list[str]) -> None:
    done = subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("module", modules(), ids=lambda m: str(m.relative_to(SOURCE)))
def test_a_file_holds_one_idea(module: Path) -> None:
    text = module.read_text()
    lines = text.count("\n")
    assert lines <= LONGEST
    assert lines <= LONG or re.search(r"(?i)\blonger than\b", text[:2000]), (
        f"{lines} lines: split it, or say at its top why it is longer than {LONG}"
    )
    assert module.stem not in BANNED_NAMES
    assert not text or text.startswith('"""') or module.stem == "_version"


def test_the_package_knows_no_machine() -> None:
    """No path of one machine, no address of a registry, in anything that is shipped."""
    suspicious = re.compile(r"(?<![\w.])/(?:work|farm|root)/|pypi\.org|registry\.npmjs")
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    this = str(Path(__file__).relative_to(ROOT))
    found = [
        name
        for name in tracked
        if name != this and suspicious.search((ROOT / name).read_text(errors="replace"))
    ]
    assert not found
