"""An output folder is hostile ground: what is a file in it is kept, nothing outside it is read."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from gpulayer.artifacts import collect


class Shelf:
    """Takes files by path, as a channel does."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, path: str) -> str:
        data = Path(path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        self.kept[digest] = data
        return digest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    made.mkdir()
    return made


def paths(found: collect.Collected) -> list[str]:
    return [str(output["path"]) for output in found.outputs]


def test_files_are_kept_by_path_digest_size_and_mode(folder: Path) -> None:
    (folder / "b").write_bytes(b"two")
    (folder / "sub" / "deep").mkdir(parents=True)
    tool = folder / "sub" / "deep" / "tool"
    tool.write_bytes(b"#!")
    tool.chmod(0o700)
    (folder / "empty").touch()
    shelf = Shelf()
    found = collect.outputs(str(folder), shelf.put)
    assert paths(found) == ["b", "empty", "sub/deep/tool"]
    assert found.note == ""
    assert [o["executable"] for o in found.outputs] == [False, False, True]
    assert [o["size"] for o in found.outputs] == [3, 0, 2]
    assert shelf.kept[str(found.outputs[0]["digest"])] == b"two"


def test_no_folder_is_no_output(tmp_path: Path) -> None:
    assert collect.outputs(str(tmp_path / "none"), Shelf().put) == collect.Collected((), "")


def test_links_pipes_and_sockets_are_left_out_by_name(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "a-link").symlink_to(tmp_path / "secret")
    (folder / "dir-link").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(folder / "sock"))
        (folder / "real").write_text("x")
        found = collect.outputs(str(folder), Shelf().put)
    assert paths(found) == ["real"]
    assert "a-link (a link)" in found.note
    assert "dir-link (a link)" in found.note
    assert "pipe (a pipe)" in found.note
    assert "and 1 more" in found.note


def test_a_folder_that_became_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "theirs").write_text("x")
    folder.rmdir()
    folder.symlink_to(elsewhere)
    found = collect.outputs(str(folder), Shelf().put)
    assert found.outputs == ()
    assert "replaced" in found.note


@pytest.mark.parametrize(
    "name", [b"new\nline", b"back\\slash", b"esc\x1b[0m", b"\xff\xfe", b"\xe2\x80\xae"]
)
def test_names_that_another_system_could_not_have_are_left_out(folder: Path, name: bytes) -> None:
    Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_text("x")
    found = collect.outputs(str(folder), Shelf().put)
    assert found.outputs == ()
    assert found.note.isascii()
    assert found.note.isprintable()


def test_names_and_depth_at_their_limits(folder: Path) -> None:
    inside = folder
    for _ in range(collect.MAX_DEPTH):
        inside = inside / "d"
    inside.mkdir(parents=True)
    (inside / "kept").write_text("x")
    (inside / "d").mkdir()
    (inside / "d" / "left").write_text("x")
    found = collect.outputs(str(folder), Shelf().put)
    assert [path.rsplit("/", 1)[1] for path in paths(found)] == ["kept"]
    assert "nested too deeply" in found.note


def test_a_file_that_grows_while_it_is_stored_is_stored_once_more(folder: Path) -> None:
    grows = folder / "grows"
    grows.write_text("a")
    shelf, times = Shelf(), []

    def put(path: str) -> str:
        digest = shelf.put(path)
        if not times:
            grows.write_text("ab")
        times.append(digest)
        return digest

    found = collect.outputs(str(folder), put)
    assert len(times) == 2
    assert (found.outputs[0]["digest"], found.outputs[0]["size"]) == (times[1], 2)


def test_what_cannot_be_stored_is_left_out_but_a_lost_plane_is_told(folder: Path) -> None:
    (folder / "file").write_text("x")

    def refuse(path: str) -> str:
        raise OSError(0, "it is too large")

    assert "file (it is too large)" in collect.outputs(str(folder), refuse).note

    def gone(path: str) -> str:
        raise ConnectionError("no plane")

    with pytest.raises(ConnectionError):
        collect.outputs(str(folder), gone)
