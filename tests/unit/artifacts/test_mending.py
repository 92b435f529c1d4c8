"""A new bundle from an old one and what has changed is the very bundle, or refused."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gpulayer.artifacts import build_source_bundle
from gpulayer.artifacts.bundle import Bundle
from gpulayer.artifacts.mending import difference, mended
from gpulayer.artifacts.packs import head_of, unpack
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.contracts import limits
from gpulayer.errors import GPULayerError


def bundle_of(folder: Path, files: dict[str, bytes]) -> tuple[Bundle, bytes]:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    bundle = build_source_bundle(folder)
    return bundle, b"".join(bundle.chunks())


OLD = {"a": b"one", "d/b": b"two" * 1000, "d/c": b"three", "z": b""}


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        {},
        {**OLD, "d/b": b"two" * 999},
        {"a": OLD["a"]},
        {**OLD, "0": b"first", "d/bb": b"between", "zz": b"last"},
        {"a/b": b"a folder now"},
        {"ä": b"not ascii", "a": b"ONE"},
    ],
    ids=["same", "empty", "changed", "gone", "new", "replaced", "names"],
)
def test_any_bundle_comes_of_any_other(tmp_path: Path, new: dict[str, bytes]) -> None:
    old, old_bytes = bundle_of(tmp_path, OLD)
    made, expected = bundle_of(tmp_path, new)
    head, changed = difference(old.entries, made.entries)
    body = head + b"".join(b"".join(made.content(entry)) for entry in changed)
    assert b"".join(mended(io.BytesIO(old_bytes), io.BytesIO(body))) == expected


def test_a_small_change_in_a_large_folder_is_a_small_upload(tmp_path: Path) -> None:
    files = {f"{n:04}": bytes([n % 251]) * 5000 for n in range(1000)}
    old, _ = bundle_of(tmp_path, files)
    new, _ = bundle_of(tmp_path, {**files, "0500": b"changed"})
    head, changed = difference(old.entries, new.entries)
    assert [entry.path for entry in changed] == ["0500"]
    assert len(head) < 100
    assert new.size > 5_000_000


@pytest.mark.parametrize(
    "head",
    [
        b"", b"{", b"[]", b"1", b'{"gone": [], "new": [[1, 2, 3, 4]]}',
        b'{"gone": [1], "new": []}', b'{"gone": [], "new": [["a", -1, 0, false]]}',
        b'{"gone": [], "new": [["a", 1, 4294967296, false]]}', b'{"gone": []}',
        b'{"gone": [], "new": [["a", true, 0, false]]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_head_that_makes_no_sense_is_refused(tmp_path: Path, head: bytes) -> None:
    _, old = bundle_of(tmp_path, OLD)
    with pytest.raises(GPULayerError) as refused:
        mended(io.BytesIO(old), io.BytesIO(head + b"\n"))
    assert refused.value.code == "usage"


@pytest.mark.parametrize(
    ("old", "new", "slug"),
    [
        (b"no bundle", [], "bad-bundle"),
        (None, [["big", limits.FOLDER_BYTES, 0, False]], "too-large"),
        (None, [[f"{n}", 0, 0, False] for n in range(limits.SOURCE_ENTRIES)], "too-large"),
    ],
)
def test_the_result_is_bounded_before_a_byte_is_written(
    tmp_path: Path, old: bytes | None, new: list[Any], slug: str
) -> None:
    base = bundle_of(tmp_path, OLD)[1] if old is None else old
    body = io.BytesIO(json.dumps({"gone": [], "new": new}).encode() + b"\n")
    with pytest.raises(GPULayerError) as refused:
        mended(io.BytesIO(base), body)
    assert refused.value.code == slug


@pytest.fixture
def artifacts(tmp_path: Path) -> LocalArtifacts:
    return LocalArtifacts(tmp_path / "artifacts")


def pack(artifacts: LocalArtifacts, *files: bytes, cut: int = 0) -> list[str]:
    digests = [hashlib.sha256(data).hexdigest() for data in files]
    head = head_of(zip(digests, map(len, files), strict=True))
    body = head + b"".join(files)
    unpack(io.BytesIO(body[: len(body) - cut]), artifacts)
    return digests


def test_a_pack_is_stored_file_by_file(artifacts: LocalArtifacts) -> None:
    files = [b"", b"one", b"two", b"one", *(bytes([n]) for n in range(60))]
    for digest, data in zip(pack(artifacts, *files), files, strict=True):
        assert artifacts.open(digest).read() == data
    assert not list((artifacts.folder / ".new").iterdir())


def test_a_pack_that_lies_or_ends_early_stores_nothing(artifacts: LocalArtifacts) -> None:
    right, wrong = head_of([("0" * 64, 3)]), head_of([("../../x", 3)])
    for head in (right, wrong):
        with pytest.raises(GPULayerError) as refused:
            unpack(io.BytesIO(head + b"abc"), artifacts)
        assert refused.value.code == "digest-mismatch"
    with pytest.raises(GPULayerError):
        pack(artifacts, b"one", b"two", cut=1)
    with pytest.raises(GPULayerError):
        unpack(io.BytesIO(b"{}\n"), artifacts)
    assert list(artifacts.stored()) == []
    assert not list((artifacts.folder / ".new").iterdir())
