"""`gpulayer.contracts` gives every name, and loads only what a name needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpulayer.contracts as contracts

HEAVY = ("pydantic", "pydantic_core", "yaml", "packaging", "sqlite3", "difflib")
LIGHT = (
    "ids states records changes messages capabilities decision durations limits profiles "
    "environ_names".split()
)


def _loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_every_public_name_is_there() -> None:
    for name in contracts.__all__:
        assert getattr(contracts, name) is not None
    assert set(contracts.__all__) <= set(dir(contracts))


def test_type_checkers_see_the_names_that_are_there() -> None:
    tree = ast.parse(Path(str(contracts.__file__)).read_text())
    told = {
        (alias.name, node.module.rpartition(".")[2])
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and "contracts." in node.module
        for alias in node.names
    }
    homes = {name: home for home, names in contracts._NAMES.items() for name in names.split()}
    assert told == set(homes.items())


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="JobSpek"):
        contracts.JobSpek  # noqa: B018


def test_the_light_rooms_load_nothing() -> None:
    loaded = _loaded("; ".join(f"import gpulayer.contracts.{room}" for room in LIGHT))
    assert "gpulayer.contracts.messages" in loaded
    assert not loaded & set(HEAVY)


def test_a_light_name_loads_no_heavy_module() -> None:
    loaded = _loaded("from gpulayer.contracts import JOB_TRANSITIONS, WorkerView, JobResult")
    assert not loaded & set(HEAVY)


def test_a_spec_needs_no_yaml() -> None:
    loaded = _loaded("from gpulayer.contracts import JobSpec")
    assert "pydantic" in loaded
    assert not loaded & {"yaml", "sqlite3"}
