"""What people read, and that the lines it offers work: whole sessions, written down.

Each file in `messages` and `outputs` is a session in a home of its own. `pytest tests/golden
--update` runs them and writes down what they print; the difference is for a person to read.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpulayer.slugs import SLUGS
from tests.golden.elsewhere import ELSEWHERE, NOT_BY_A_LINE
from tests.support.lines import refusal
from tests.support.local_home import LocalHome
from tests.support.transcript import Session, Step, settled

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.console"))
MESSAGES = sorted((HERE / "messages").glob("*.console"))
HELP = re.compile(r"^  help: (.*)$", re.MULTILINE)
SLUG = re.compile(r"^error\[([\w-]+)\]: ", re.MULTILINE)


@pytest.mark.e2e
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_session_reads_as_it_is_written(file: Path, request: pytest.FixtureRequest) -> None:
    title, _, text = file.read_text().partition("\n\n")
    steps = Step.all_of(text)
    assert steps
    with LocalHome() as home:
        session = Session(home)
        told = [Step(step.command, settled(session.run(step), home)) for step in steps]
    if request.config.getoption("--update"):
        file.write_text(f"{title}\n\n" + "".join(step.text() for step in told))
        steps = told
    assert [step.text() for step in told] == [step.text() for step in steps]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_line_that_is_offered_parses(file: Path) -> None:
    offered = HELP.findall(file.read_text())
    assert {line: refusal(line.replace("-ID", "-00000000")) for line in offered} == dict.fromkeys(
        offered, ""
    )


@pytest.mark.parametrize("slug", SLUGS)
def test_every_error_has_a_session_or_a_reason(slug: str) -> None:
    shown = {found for file in MESSAGES for found in SLUG.findall(file.read_text())}
    assert (slug in shown) != (slug in ELSEWHERE), "in one of the two, and not in both"


@pytest.mark.parametrize("slug", [s for s in SLUGS if s not in ELSEWHERE | NOT_BY_A_LINE])
def test_a_line_of_the_message_is_tried_and_mends_it(slug: str) -> None:
    assert any(mends(slug, Step.all_of(file.read_text())) for file in MESSAGES)


def mends(slug: str, steps: list[Step]) -> bool:
    """Whether after a message a line of its own is typed, and no message follows."""
    for number, step in enumerate(steps):
        offered = HELP.findall(step.printed) if slug in SLUG.findall(step.printed) else ()
        for later in steps[number + 1 :]:
            is_tried = any(later.command.startswith(line) for line in offered)
            if is_tried and not SLUG.search(later.printed):
                return True
    return False


@pytest.mark.parametrize("slug", ELSEWHERE)
def test_an_error_without_a_session_has_a_test_that_names_it(slug: str) -> None:
    _, test = ELSEWHERE[slug]
    assert slug in (HERE.parent / test).read_text()


def test_the_exceptions_are_errors() -> None:
    assert set(ELSEWHERE) | set(NOT_BY_A_LINE) <= set(SLUGS)
