"""The written cases: every valid one is taken, every invalid one is refused where it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulayer.contracts import spec_to_json, validate_spec
from tests.unit.contracts.specs import refusal

CASES = Path(__file__).parent / "cases"


def _cases(kind: str) -> list[Any]:
    files = sorted((CASES / kind).glob("*.json"))
    assert files
    return [pytest.param(json.loads(file.read_text()), id=file.stem) for file in files]


@pytest.mark.parametrize("case", _cases("valid"))
def test_a_valid_case_has_the_values_that_it_promises(case: dict[str, Any]) -> None:
    spec = validate_spec(case["spec"])
    for path, value in case["expect"].items():
        found: Any = spec
        for step in path.split("."):
            found = found[step] if isinstance(found, dict) else getattr(found, step)
        assert found == value


@pytest.mark.parametrize("case", _cases("valid"))
def test_a_valid_case_survives_the_wire(case: dict[str, Any]) -> None:
    spec = validate_spec(case["spec"])
    assert validate_spec(json.loads(json.dumps(spec_to_json(spec)))) == spec


@pytest.mark.parametrize("case", _cases("invalid"))
def test_an_invalid_case_names_its_field_and_says_how_to_mend_it(case: dict[str, Any]) -> None:
    problems = refusal(case["spec"]).problems
    field = case["field"]
    assert any(
        p.field == field or p.field.startswith((f"{field}.", f"{field}[")) for p in problems
    ), problems
    assert all(problem.message and problem.mend for problem in problems)
