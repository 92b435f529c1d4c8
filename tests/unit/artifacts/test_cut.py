"""A folder is stored as it was at one moment, or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpulayer.artifacts import cut
from gpulayer.artifacts.collect import SMALL_BYTES
from gpulayer.artifacts.cut import RestlessError
from gpulayer.contracts import limits


class Shelf:
    """Takes files, and lets something happen as it does."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.kept: dict[str, bytes] = {}
        self.then = then

    def put_artifact(self, path: str) -> str:
        data = Path(path).read_bytes()
        self.put_artifacts([(hashlib.sha256(data).hexdigest(), data)])
        return hashlib.sha256(data).hexdigest()

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        self.then()
        self.kept.update(files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ck"
    (made / "step-1").mkdir(parents=True)
    (made / "step-1" / "w").write_bytes(b"weights")
    (made / "newest").symlink_to("step-1/w")
    return made


def taken(folder: Path, shelf: Shelf, known: dict[cut.Stamp, str] | None = None) -> dict[str, str]:
    """Path -> digest, or where it leads."""
    with cut.pin(str(folder), cut.look(str(folder)), known or {}) as pins:
        files, digests = pins.store(shelf)
    if known is not None:
        known.update(digests)
    return {file["path"]: file.get("link") or file["digest"] for file in files}


def test_files_and_links_inside_are_stored_and_what_cannot_be_is_named(folder: Path) -> None:
    (folder / "out").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    (folder / "tool").write_bytes(b"#!")
    (folder / "tool").chmod(0o755)
    seen, shelf = cut.look(str(folder)), Shelf()
    with cut.pin(str(folder), seen, {}) as pins:
        files, _ = pins.store(shelf)
    assert [(f["path"], f.get("executable")) for f in files] == [
        ("step-1/w", False),
        ("tool", True),
        ("newest", None),
    ]
    assert set(shelf.kept.values()) == {b"weights", b"#!"}
    assert seen.note == "left out: out (a link), pipe (a pipe)"


def test_a_file_that_was_stored_is_neither_read_nor_sent_again(folder: Path) -> None:
    known: dict[cut.Stamp, str] = {}
    first, second = Shelf(), Shelf()
    before = taken(folder, first, known)
    (folder / "step-2").write_bytes(b"more")
    after = taken(folder, second, known)
    assert list(second.kept.values()) == [b"more"]
    assert before.items() < after.items()


@pytest.mark.parametrize("size", [7, SMALL_BYTES + 1])
def test_a_file_that_is_written_in_while_it_is_stored_spoils_it(folder: Path, size: int) -> None:
    (folder / "w").write_bytes(b"x" * size)

    def write() -> None:
        with open(folder / "w", "r+b") as file:
            file.write(b"yy")
        os.utime(folder / "w", ns=(1, 1))

    with cut.pin(str(folder), cut.look(str(folder)), {}) as pins:
        assert pins.is_unchanged
        write()
        assert not pins.is_unchanged
        with pytest.raises(RestlessError):
            pins.store(Shelf())


def test_what_is_held_is_stored_whatever_its_names_mean_by_then(folder: Path) -> None:
    """A job that replaces its files all the time is kept as it was at one moment."""
    shelf = Shelf()
    with cut.pin(str(folder), cut.look(str(folder)), {}) as pins:
        (folder / "next").write_bytes(b"newer")
        (folder / "next").replace(folder / "step-1" / "w")
        assert (pins.is_whole, pins.is_unchanged) == (True, True)
        pins.store(shelf)
    assert list(shelf.kept.values()) == [b"weights"]


def test_where_too_many_are_new_to_be_held_the_folder_must_stay_as_it_is(folder: Path) -> None:
    for number in range(cut.PINNED + 1):
        (folder / f"f{number}").write_bytes(b"x")
    assert len(taken(folder, Shelf())) == cut.PINNED + 3
    with cut.pin(str(folder), cut.look(str(folder)), {}) as pins:
        assert not pins.is_whole
        with pytest.raises(RestlessError):
            pins.store(Shelf(then=lambda: (folder / "f3").unlink()))


def test_a_look_that_is_old_cannot_be_pinned(folder: Path) -> None:
    seen = cut.look(str(folder))
    (folder / "step-1" / "w").unlink()
    with pytest.raises(RestlessError):
        cut.pin(str(folder), seen, {})


def test_no_folder_is_an_empty_one_and_too_much_is_an_error(tmp_path: Path) -> None:
    assert cut.look(str(tmp_path / "none")).is_empty
    for number in range(limits.CHECKPOINT_FILES + 1):
        os.symlink("a", tmp_path / f"l{number}")
    with pytest.raises(OSError, match="over 10,000 files"):
        cut.look(str(tmp_path))


def test_a_rename_tells_that_a_file_was_whole(tmp_path: Path) -> None:
    plain, renamed = tmp_path / "plain", tmp_path / "renamed"
    plain.write_bytes(b"x")
    renamed.write_bytes(b"x")
    os.utime(renamed, ns=(1, 1))  # its last byte, long before
    seen = cut.look(str(tmp_path)).files
    assert seen["renamed"].is_renamed
    assert not seen["plain"].is_renamed
