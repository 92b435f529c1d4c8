"""References of images, read as engines read them."""

from __future__ import annotations

import pytest

from gpulayer.contracts.images import is_pinned, parse
from gpulayer.contracts.jobspec import validate_spec
from gpulayer.errors import SpecError
from tests.unit.contracts.specs import command

DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("text", "name", "tag"),
    [
        ("python", "docker.io/library/python", None),
        ("python:3.12", "docker.io/library/python", "3.12"),
        ("pytorch/pytorch:2.6-cuda", "docker.io/pytorch/pytorch", "2.6-cuda"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io/nvidia/pytorch", "25.01-py3"),
        ("10.0.0.5:5000/a/b/c", "10.0.0.5:5000/a/b/c", None),
        ("localhost/mine:1", "localhost/mine", "1"),
        ("lab:5000/mine", "lab:5000/mine", None),
    ],
)
def test_a_reference_has_a_full_name(text: str, name: str, tag: str | None) -> None:
    for digest in ("", f"@{DIGEST}"):
        found = parse(text + digest)
        assert found is not None
        assert (found.name, found.tag) == (name, tag)
        assert is_pinned(text + digest) is bool(digest)
    assert found.by_digest == f"{name}@{DIGEST}"
    assert found.by_tag == f"{name}:{tag or 'latest'}"


@pytest.mark.parametrize(
    "text",
    ["Python", "a b", "-v/:/x", "--privileged", "python:", "python@sha256:12", "a//b", "/a", "a/",
     "python@md5:00", "http://a/b", f"a@{DIGEST.upper()}", "a:b:c", "", "a\n", ":1", "é"],
)  # fmt: skip
def test_what_is_no_reference_is_refused_where_it_is_written(text: str) -> None:
    assert parse(text) is None
    with pytest.raises(SpecError) as raised:
        validate_spec(command(image=text))
    assert [problem.field for problem in raised.value.problems] == ["image"]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"environment": {"requirements": ["einops"]}}, "environment.requirements"),
        ({"environment": {"file": "uv.lock"}}, "environment.file"),
        ({"resources": {"python": ">=3.11"}}, "resources.python"),
        ({"resources": {"frameworks": {"torch": ""}}}, "resources.frameworks"),
    ],
)
def test_what_speaks_of_a_workers_pythons_is_refused_beside_an_image(
    more: dict[str, object], field: str
) -> None:
    with pytest.raises(SpecError) as raised:
        validate_spec(command(image=f"a@{DIGEST}", **more))
    assert [problem.field for problem in raised.value.problems] == [field]
    validate_spec(command(image=f"a@{DIGEST}", environment={"timeout_seconds": 5}))
