"""The shipped JSON Schema is the models' own, and says what an editor should show."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from gpulayer.contracts.schema import jobspec_schema, schema_text


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = files("gpulayer.contracts").joinpath("jobspec.schema.json").read_text("utf-8")
    assert shipped == schema_text(), "run: python -m gpulayer.contracts.schema"


def test_every_field_is_described() -> None:
    schema = jobspec_schema()
    silent = [
        f"{title}.{name}"
        for title, model in _models(schema)
        for name, field in model["properties"].items()
        if "description" not in field and "const" not in field
    ]
    assert silent == []


def test_unknown_fields_are_wrong_in_an_editor_too() -> None:
    assert all(model["additionalProperties"] is False for _, model in _models(jobspec_schema()))


def test_a_workload_says_its_kind() -> None:
    definitions = jobspec_schema()["$defs"]
    for kind in ("CommandJob", "FunctionJob", "DistributedJob"):
        assert "kind" in definitions[kind]["required"]


def _models(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "JobSpec", schema
    yield from schema["$defs"].items()
