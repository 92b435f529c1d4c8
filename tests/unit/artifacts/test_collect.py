"""An output folder is hostile ground: what is a file in it is kept, nothing outside it is read."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpulayer.artifacts import collect, hostile_folder, packs


class Shelf:
    """Takes files by path, as a channel does."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.packs = 0

    def put_artifact(self, path: str) -> str:
        data = Path(path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        self.kept[digest] = data
        return digest

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        assert len(files) <= packs.PACK_FILES
        assert sum(len(data) for _, data in files) <= packs.PACK_BYTES
        self.packs += 1
        for digest, data in files:
            assert hashlib.sha256(data).hexdigest() == digest
            self.kept[digest] = data


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
    found = collect.outputs(str(folder), shelf)
    assert paths(found) == ["b", "empty", "sub/deep/tool"]
    assert found.note == ""
    assert [o["executable"] for o in found.outputs] == [False, False, True]
    assert [o["size"] for o in found.outputs] == [3, 0, 2]
    assert shelf.kept[str(found.outputs[0]["digest"])] == b"two"


def test_no_folder_is_no_output(tmp_path: Path) -> None:
    assert collect.outputs(str(tmp_path / "none"), Shelf()) == collect.Collected((), "")


def test_links_pipes_and_sockets_are_left_out_by_name(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "a-link").symlink_to(tmp_path / "secret")
    (folder / "dir-link").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(folder / "sock"))
        (folder / "real").write_text("x")
        found = collect.outputs(str(folder), Shelf())
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
    found = collect.outputs(str(folder), Shelf())
    assert found.outputs == ()
    assert "replaced" in found.note


@pytest.mark.parametrize(
    "name", [b"new\nline", b"back\\slash", b"esc\x1b[0m", b"\xff\xfe", b"\xe2\x80\xae"]
)
def test_names_that_another_system_could_not_have_are_left_out(folder: Path, name: bytes) -> None:
    Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_text("x")
    found = collect.outputs(str(folder), Shelf())
    assert found.outputs == ()
    assert found.note.isascii()
    assert found.note.isprintable()


def test_names_and_depth_at_their_limits(folder: Path) -> None:
    inside = folder
    for _ in range(hostile_folder.MAX_DEPTH):
        inside = inside / "d"
    inside.mkdir(parents=True)
    (inside / "kept").write_text("x")
    (inside / "d").mkdir()
    (inside / "d" / "left").write_text("x")
    found = collect.outputs(str(folder), Shelf())
    assert [path.rsplit("/", 1)[1] for path in paths(found)] == ["kept"]
    assert "nested too deeply" in found.note


class Growing(Shelf):
    """A job goes on writing while its file is stored the first time."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.times: list[str] = []

    def put_artifact(self, path: str) -> str:
        digest = super().put_artifact(path)
        if not self.times:
            with self.file.open("ab") as file:
                file.write(b"more")
        self.times.append(digest)
        return digest


def test_a_file_that_grows_while_it_is_stored_is_stored_once_more(folder: Path) -> None:
    grows = folder / "grows"
    grows.write_bytes(bytes(collect.SMALL_BYTES + 1))
    shelf = Growing(grows)
    found = collect.outputs(str(folder), shelf)
    assert len(shelf.times) == 2
    digest, size = shelf.times[1], collect.SMALL_BYTES + 5
    assert (found.outputs[0]["digest"], found.outputs[0]["size"]) == (digest, size)


class Refusing(Shelf):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def put_artifact(self, path: str) -> str:
        raise self.error

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        raise self.error


def test_what_cannot_be_stored_is_left_out_but_a_lost_plane_is_told(folder: Path) -> None:
    (folder / "file").write_text("x")
    (folder / "large").write_bytes(bytes(collect.SMALL_BYTES + 1))
    found = collect.outputs(str(folder), Refusing(OSError(0, "it is too large")))
    assert found.outputs == ()
    assert "file (it is too large)" in found.note
    assert "large (it is too large)" in found.note
    for name in ("file", "large"):
        with pytest.raises(ConnectionError):
            collect.outputs(str(folder), Refusing(ConnectionError("no plane")))
        (folder / name).unlink()


def test_many_small_files_travel_together(folder: Path) -> None:
    for number in range(2 * packs.PACK_FILES + 1):
        (folder / f"{number:05}").write_text(str(number))
    shelf = Shelf()
    found = collect.outputs(str(folder), shelf)
    assert len(found.outputs) == len(shelf.kept) == 2 * packs.PACK_FILES + 1
    assert shelf.packs == 3


def test_a_pack_is_no_larger_than_it_may_be(folder: Path) -> None:
    for number in range(40):
        (folder / f"{number}").write_bytes(bytes([number]) * collect.SMALL_BYTES)
    shelf = Shelf()
    assert len(collect.outputs(str(folder), shelf).outputs) == 40
    assert shelf.packs == 2


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (["*.pt"], ["a.pt"]),
        (["**/*.pt"], ["a.pt", "runs/1/b.pt", "runs/2/c.pt"]),
        (["runs"], ["runs/1/b.pt", "runs/2/c.pt", "runs/log"]),
        (["runs/*/b.*"], ["runs/1/b.pt"]),
        (["runs/[12]"], ["runs/1/b.pt", "runs/2/c.pt"]),
        (["a.pt", "runs/log", "none"], ["a.pt", "runs/log"]),
        (["!a.pt", "#a"], []),
    ],
)
def test_patterns_name_files_outside_the_output_folder(
    folder: Path, tmp_path: Path, patterns: list[str], kept: list[str]
) -> None:
    work = tmp_path / "work"
    for path in ("a.pt", "runs/1/b.pt", "runs/2/c.pt", "runs/log", "other/a.txt"):
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(path)
    (work / "d.pt").symlink_to(tmp_path / "elsewhere")
    found = collect.outputs(str(folder), Shelf(), elsewhere=str(work), patterns=patterns)
    assert paths(found) == kept
    assert ("d.pt (a link)" in found.note) == ("*.pt" in str(patterns))


def test_of_two_files_with_one_path_the_output_folders_is_kept(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    for where, text in ((folder, "one"), (tmp_path / "work", "two")):
        (where / "x").write_text(text)
    shelf = Shelf()
    collect.outputs(str(folder), shelf, elsewhere=str(tmp_path / "work"), patterns=["x"])
    assert list(shelf.kept.values()) == [b"one"]


def test_what_stays_behind_is_listed_the_largest_first(folder: Path) -> None:
    assert collect.left_behind(str(folder), ()) is None
    for name, size in (
        ("staged", 5),
        ("small", 1),
        ("d/large", 9),
        ("new\nline", 2),
        ("__pycache__/m.pyc", 7),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    (folder / "link").symlink_to("small")
    left = collect.left_behind(str(folder), {"staged"})
    assert left == {"count": 2, "bytes": 10, "paths": ["d/large", "small"]}
    assert collect.left_behind(str(folder / "none"), ()) is None
