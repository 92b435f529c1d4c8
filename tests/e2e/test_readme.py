"""Every console block of README and docs is run, in order, and prints what it says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.local_home import LocalHome
from tests.support.transcript import Session, Step, agrees, console_blocks

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    document
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if console_blocks(document)
]
INSTALLS = "pip install ."
"""Tried by `.ci/run` on a clean machine; here the package is there already."""


@pytest.mark.e2e
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_a_document_is_true(document: Path) -> None:
    steps = [step for block in console_blocks(document) for step in Step.all_of(block)]
    with LocalHome() as home:
        shutil.copytree(ROOT / "examples", home.work / "examples")
        session = Session(home)
        for step in steps:
            if step.command != INSTALLS:
                printed = session.run(step)
                assert agrees(step.printed, printed), f"$ {step.command}\n{printed}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


@pytest.mark.parametrize("document", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if "://" not in link:
            assert (document.parent / link).exists(), link
