"""A fetched file is whole under its name, or not there; nothing is overwritten or left over."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from gpulayer.errors import GPULayerError, NotFoundError, RefusedError
from gpulayer.sdk.fetching import Wanted, fetch, fetch_output, inside


class Plane:
    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.fails: dict[str, Exception] = {}

    def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.known[digest] = data
        return digest

    def request(
        self, method: str, path: str, *, park: float = 0.0, sink: BinaryIO | None = None
    ) -> Any:
        assert sink is not None
        digest = path.rpartition("/")[2]
        for data in (b"a try that was cut off", self.known[digest]):
            sink.seek(0)
            sink.truncate()
            sink.write(data[:3])
            sink.write(data[3:])
        if digest in self.fails:
            raise self.fails[digest]


@pytest.fixture
def plane() -> Plane:
    return Plane()


def test_files_come_with_their_modes(plane: Plane, tmp_path: Path) -> None:
    one, two = plane.put(b"one"), plane.put(b"#!/bin/sh")
    fetch(plane, [Wanted(one, tmp_path / "a" / "b" / "x"), Wanted(two, tmp_path / "a" / "t", True)])
    assert (tmp_path / "a" / "b" / "x").read_bytes() == b"one"
    assert os.access(tmp_path / "a" / "t", os.X_OK)
    assert not os.access(tmp_path / "a" / "b" / "x", os.X_OK)
    assert sorted(os.listdir(tmp_path / "a")) == ["b", "t"]


def test_one_that_fails_takes_back_the_others(plane: Plane, tmp_path: Path) -> None:
    one, two = plane.put(b"one"), plane.put(b"two")
    (tmp_path / "here").mkdir()
    wanted = [Wanted(one, tmp_path / "here" / "new" / "1"), Wanted(two, tmp_path / "here" / "2")]
    plane.fails[two] = NotFoundError("artifact-not-found", "gone")
    with pytest.raises(NotFoundError):
        fetch(plane, wanted)
    assert os.listdir(tmp_path / "here") == []
    plane.fails.clear()
    plane.known[two] = b"other bytes"
    with pytest.raises(RefusedError) as refused:
        fetch(plane, wanted)
    assert refused.value.code == "digest-mismatch"
    assert os.listdir(tmp_path / "here") == []


def test_an_output_is_fetched_by_its_name_also_from_the_folder_of_a_node(
    plane: Plane, tmp_path: Path
) -> None:
    outputs = [
        {"path": "node-0/run/a.txt", "digest": plane.put(b"deep")},
        {"path": "node-0/a.txt", "digest": plane.put(b"one")},
        {"path": "ba.txt", "digest": plane.put(b"other")},
    ]
    fetch_output(plane, "j1", outputs, "a.txt", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"one"
    with pytest.raises(NotFoundError, match="left no file"):
        fetch_output(plane, "j1", outputs, "b.txt", tmp_path / "b")


class Late(Plane):
    """Somebody puts a file in the way while ours is fetched."""

    def __init__(self, way: Path) -> None:
        super().__init__()
        self.way = way

    def request(
        self, method: str, path: str, *, park: float = 0.0, sink: BinaryIO | None = None
    ) -> Any:
        super().request(method, path, sink=sink)
        self.way.write_text("mine")


def test_nothing_is_overwritten(plane: Plane, tmp_path: Path) -> None:
    one, two = plane.put(b"one"), plane.put(b"two")
    (tmp_path / "2").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    for taken in ("2", "dangling"):
        with pytest.raises(RefusedError) as refused:
            fetch(plane, [Wanted(one, tmp_path / "1"), Wanted(two, tmp_path / taken)])
        assert refused.value.code == "already-there"
        assert sorted(os.listdir(tmp_path)) == ["2", "dangling"]
    assert (tmp_path / "2").read_text() == "mine"


def test_not_even_what_comes_meanwhile_is_overwritten(tmp_path: Path) -> None:
    plane = Late(tmp_path / "2")
    one, two = plane.put(b"one"), plane.put(b"two")
    with pytest.raises(RefusedError) as refused:
        fetch(plane, [Wanted(one, tmp_path / "1"), Wanted(two, tmp_path / "2")])
    assert refused.value.code == "already-there"
    assert os.listdir(tmp_path) == ["2"]
    assert (tmp_path / "2").read_text() == "mine"


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a\\b", "", ".", "a\nb"])
def test_an_output_stays_in_its_folder_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    with pytest.raises(GPULayerError) as refused:
        inside(tmp_path, name)
    assert refused.value.code == "unsafe-path"


def test_an_output_goes_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "way").symlink_to(tmp_path)
    with pytest.raises(RefusedError, match="is a link"):
        inside(tmp_path / "out", "way/x")
    assert inside(tmp_path / "out", "real/x") == tmp_path / "out" / "real" / "x"
