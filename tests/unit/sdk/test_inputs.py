"""What `--input` names: files and folders here, artifacts, what other jobs left, addresses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpulayer.artifacts.seen import NOTHING_SEEN
from gpulayer.contracts.jobspec import validate_spec
from gpulayer.contracts.named import ADDRESS, digests_named
from gpulayer.errors import GPULayerError, NotFoundError, SpecError
from gpulayer.sdk.inputs import Given

A, B = "a" * 64, "b" * 64
JOB: dict[str, Any] = {
    "id": "train-1",
    "finished_at": 1.0,
    "outputs": [
        {"path": "model.pt", "digest": A},
        {"path": "ckpt/1.pt", "digest": A},
        {"path": "ckpt/more/2.pt", "digest": B},
        {"path": "odd:name", "digest": B},
    ],
}


def look_up(selector: str) -> Mapping[str, Any]:
    if selector == "last":
        return JOB
    if selector == "runs":
        return {"id": "runs-1", "finished_at": None, "outputs": []}
    raise NotFoundError("job-not-found", "no such job")


def refs(folder: Path, *texts: str) -> list[dict[str, Any]]:
    given = Given(str(folder), (), NOTHING_SEEN, look_up)
    for text in texts:
        given.add(text)
    return given.refs


def refused(folder: Path, text: str) -> GPULayerError:
    with pytest.raises(GPULayerError) as error:
        refs(folder, text)
    return error.value


@pytest.mark.parametrize(
    ("text", "staged"),
    [
        ("last:model.pt", [("model.pt", A)]),
        ("last:model.pt:start.pt", [("start.pt", A)]),
        ("last:ckpt/1.pt", [("1.pt", A)]),
        ("last:ckpt", [("ckpt/1.pt", A), ("ckpt/more/2.pt", B)]),
        ("last:ckpt/:from", [("from/1.pt", A), ("from/more/2.pt", B)]),
        ("last:odd:name", [("odd:name", B)]),
    ],
)
def test_what_another_job_left(text: str, staged: list[tuple[str, str]], tmp_path: Path) -> None:
    found = refs(tmp_path, text)
    assert [(ref["path"], ref["artifact"]) for ref in found] == [
        (path, ADDRESS + digest) for path, digest in staged
    ]


def test_a_file_here_comes_before_a_job_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "last").write_text("here")
    (ref,) = refs(tmp_path, "last:model.pt")
    assert ref["path"] == "model.pt"
    assert ref["artifact"] != ADDRESS + A


def test_what_is_neither_a_file_nor_left_by_a_job(tmp_path: Path) -> None:
    error = refused(tmp_path, "nothing:x")
    assert error.code == "file-not-found"
    assert "no job is called that" in error.message
    error = refused(tmp_path, "last:nothing.pt")
    assert error.code == "artifact-not-found"
    assert error.why.startswith("it left model.pt, ckpt/1.pt")
    error = refused(tmp_path, "runs:model.pt")
    assert (error.code, error.help) == ("job-not-finished", ("gpulayer wait runs-1",))
    assert refused(tmp_path, "nothing").code == "file-not-found"


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        (f"https://h/a/b.bin#sha256={A}", "https://h/a/b.bin", "b.bin"),
        (f"https://h:8443/a/b%20c?x=1#sha256={A}", "https://h:8443/a/b%20c?x=1", "b c"),
        (f"https://h/a/b.bin#sha256={A}:in/data", "https://h/a/b.bin", "in/data"),
        (f"s3://bucket/a/key#sha256={A}", "s3://bucket/a/key", "key"),
        (f"s3://bucket/a/key#sha256={A}:k", "s3://bucket/a/key", "k"),
    ],
)
def test_an_address_with_its_digest(text: str, url: str, path: str, tmp_path: Path) -> None:
    (ref,) = refs(tmp_path, text)
    assert ref == {"artifact": ADDRESS + A, "path": path, "url": url}
    spec = {"workload": {"kind": "command", "command": ["true"]}, "inputs": [ref]}
    validate_spec(spec)
    assert list(digests_named(spec)) == [], "the plane need not have it"


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("https://h/a b?t=1", "curl -fsSL 'https://h/a b?t=1' | sha256sum"),
        ("https://h/x#sha256=abc", "curl -fsSL https://h/x | sha256sum"),
        ("s3://b/k", "aws s3 cp s3://b/k - | sha256sum"),
    ],
)
def test_an_address_without_is_refused_with_how_to_get_it(
    text: str, mend: str, tmp_path: Path
) -> None:
    error = refused(tmp_path, text)
    assert (error.code, error.help) == ("usage", (mend,))


@pytest.mark.parametrize(
    "url",
    [
        "http://h/x", "https://user:pw@h/x", "https://h", "https://h/", "s3://bucket", "file:///x",
        "https://h/a b", "https://h/x#y", "https://h/\n", "https://h/" + "x" * 2050, "gl://h/x",
    ],
)  # fmt: skip
def test_what_is_no_address_of_a_file_is_refused_everywhere(url: str, tmp_path: Path) -> None:
    error = refused(tmp_path, f"{url}#sha256={A}")
    assert error.code == "usage"
    assert "pw" not in str(error.to_json())
    ref = {"artifact": ADDRESS + A, "path": "x", "url": url}
    spec = {"workload": {"kind": "command", "command": ["true"]}, "inputs": [ref]}
    with pytest.raises(SpecError) as told:
        validate_spec(spec)
    assert told.value.problems[0].field == "inputs[0].url"
