"""Errors say what, where, why and how to mend it, wherever they are read."""

from __future__ import annotations

import traceback

import pytest

from gpulayer.errors import GPULayerError, Problem as Fault, SpecError, UsageError
from gpulayer.slugs import SLUGS, error_from_json


def test_a_plain_traceback_shows_why_and_what_mends_it() -> None:
    error = UsageError("usage", "what", where="here", why="because", hint=("one", "two"))
    shown = "".join(traceback.format_exception(error))
    for part in ("UsageError: what", "where: here", "why: because", "help: one  |  two"):
        assert part in shown
    assert str(error) == "what"


@pytest.mark.parametrize("slug", SLUGS.values(), ids=lambda slug: slug.name)
def test_an_error_comes_back_from_json_as_it_was(slug: object) -> None:
    cls: type[GPULayerError] = slug.error  # type: ignore[attr-defined]
    name: str = slug.name  # type: ignore[attr-defined]
    error = cls(name, "what", where="here", why="because", hint="one", job_id="j-1")
    back = error_from_json(error.to_json())
    assert type(back) is cls
    assert back.to_json() == error.to_json()


def test_all_problems_of_a_spec_come_back() -> None:
    error = SpecError("invalid-field", "two", problems=[Fault("a", "is bad"), Fault("b", "too")])
    back = error_from_json(error.to_json())
    assert isinstance(back, SpecError)
    assert back.problems == error.problems


def test_a_slug_of_a_newer_plane_is_still_an_error() -> None:
    assert error_from_json({"code": "brand-new", "message": "m"}).code == "brand-new"
