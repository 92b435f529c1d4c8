"""What is remembered of a folder saves time and never changes what is sent."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gpulayer.artifacts import build_source_bundle
from gpulayer.artifacts.bundle import Bundle
from gpulayer.artifacts.seen import NOTHING_SEEN, Seen, SeenFolders
from gpulayer.errors import RefusedError

FILES = {
    "train.py": b"print(1)\n", "Z": b"", "a/b/c.txt": b"c", "a/d.log": b"d", "data/x.bin": b"x",
    "data/y.bin": b"y", "lib/m.py": b"m", "lib/deep/er/n.py": b"n",
}  # fmt: skip
FOLDERS = 7
"""With the one at the top."""


@pytest.fixture(params=["plain", "repository"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / "src"
    for path, data in FILES.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_bytes(data)
    (made / ".gitignore").write_text("*.log\n/out/\n")
    if request.param == "repository":
        git(made, "init", "-q")
        git(made, "add", ".")
    return made


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def memory(tmp_path: Path, later: float = 1e6) -> SeenFolders:
    return SeenFolders(str(tmp_path / "seen"), os.stat(tmp_path).st_mtime + later)


def remembered(folder: Path, tmp_path: Path) -> Bundle:
    return build_source_bundle(folder, seen=memory(tmp_path))


def calls(action: Callable[[], object]) -> Counter[str]:
    """How often functions were called by name, those of the interpreter too."""
    counted: Counter[str] = Counter()

    def count(frame: FrameType, event: str, what: Any) -> None:
        if event == "c_call":
            counted[what.__name__] += 1
        elif event == "call":
            counted[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return counted


# --- what it saves ------------------------------------------------------------------------------


def test_of_an_unchanged_folder_each_file_is_looked_at_once_and_none_is_read(tmp_path: Path):
    folder = tmp_path / "src"
    for number in range(300):
        (folder / f"{number % 3}").mkdir(parents=True, exist_ok=True)
        (folder / f"{number % 3}/{number}.py").touch()
    (folder / ".gitignore").write_text("*.log\n")
    first = calls(lambda: remembered(folder, tmp_path))
    assert first["_checked"] == 301
    assert first["fullmatch"] > 300
    again = calls(lambda: remembered(folder, tmp_path))
    assert again["_checked"] == again["fullmatch"] == again["leaves_out"] == 0
    assert again["scandir"] == 4
    assert 301 <= again["stat"] + again["lstat"] <= 301 + 60, "the rest is the way to the folder"
    assert again["open"] <= 8


def test_git_is_asked_again_and_no_rule_of_ours_is(tmp_path: Path, folder: Path):
    first = remembered(folder, tmp_path)
    again = calls(lambda: remembered(folder, tmp_path))
    is_repository = (folder / ".git").exists()
    assert again["_ls_files"] == 2 * is_repository
    assert again["scandir"] == (0 if is_repository else FOLDERS)
    assert again["leaves_out"] == again["_checked"] == again["path_fault"] == 0
    assert remembered(folder, tmp_path) == first


def test_new_ignored_files_cost_a_listing_but_no_reading(folder: Path, tmp_path: Path):
    remembered(folder, tmp_path)
    (folder / "x.log").touch()
    assert calls(lambda: remembered(folder, tmp_path))["_checked"] == 0
    again = calls(lambda: remembered(folder, tmp_path))
    assert again["leaves_out"] == 0, "it has been noted"
    assert "x.log" in remembered(folder, tmp_path).left_out


def test_what_the_caller_leaves_out_and_what_is_data_is_a_question_of_its_own(
    folder: Path, tmp_path: Path
):
    known = memory(tmp_path)
    whole = build_source_bundle(folder, seen=known)
    less = build_source_bundle(folder, seen=known, without=[str(folder / "data")])
    more = build_source_bundle(folder, seen=known, is_data=True)
    assert less.digest != whole.digest != more.digest
    assert less == build_source_bundle(folder, without=[str(folder / "data")])
    assert more == build_source_bundle(folder, is_data=True)


# --- what it must notice ------------------------------------------------------------------------


def in_place(folder: Path) -> None:
    """The same size, and the time of the bytes set back."""
    path = folder / "train.py"
    before = os.stat(path)
    while os.stat(path).st_ctime_ns == before.st_ctime_ns:  # the clock has ticks
        path.write_bytes(b"print(2)\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swapped_for_a_twin(folder: Path) -> None:
    """Another file of the same size and times of bytes takes the name."""
    before = os.stat(folder / "train.py")
    (folder / "new").write_bytes(b"print(3)\n")
    os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "new").rename(folder / "train.py")


def file_for_a_link(folder: Path) -> None:
    (folder / "train.py").rename(folder.parent / "kept")
    (folder / "train.py").symlink_to(folder.parent / "kept")


def folder_for_a_link(folder: Path) -> None:
    (folder / "lib").rename(folder.parent / "kept")
    (folder / "lib").symlink_to(folder.parent / "kept")


def folder_for_a_file(folder: Path) -> None:
    (folder / "lib").rename(folder.parent / "kept")
    (folder / "lib").touch()


def times_of_a_folder_set_back(folder: Path) -> None:
    before = os.stat(folder / "data")
    (folder / "data/z.bin").touch()
    os.utime(folder / "data", ns=(before.st_atime_ns, before.st_mtime_ns))


def link_for_a_file(folder: Path) -> None:
    (folder / "link").unlink()
    (folder / "link").write_bytes(b"bytes of its own")


CHANGES: list[Callable[[Path], object]] = [
    in_place,
    swapped_for_a_twin,
    file_for_a_link,
    folder_for_a_link,
    folder_for_a_file,
    times_of_a_folder_set_back,
    link_for_a_file,
    lambda folder: (folder / "Z").chmod(0o755),
    lambda folder: (folder / "Z").unlink(),
    lambda folder: (folder / "lib/deep/er/new.py").touch(),
    lambda folder: (folder / "a/b").rename(folder / "a/renamed"),
    lambda folder: (folder / ".gitignore").write_text("*.txt\n/out/\n"),
    lambda folder: (folder / ".gitignore").unlink(),
    lambda folder: (folder / "lib/.gitignore").write_text("never.py\n"),
    lambda folder: (folder / "lib/deep/.gitignore").write_text("!kept.log\n"),
    lambda folder: (folder / "data/.gitignore").symlink_to("../rules"),
    lambda folder: (folder / ".gpulayerignore").write_text("!*.log\n"),
    lambda folder: (folder / ".gpulayerignore").write_text("/data/\n"),
    lambda folder: (folder / "lib/pyvenv.cfg").touch(),
    lambda folder: (folder / "new").write_bytes(b"new"),
]


@pytest.mark.parametrize("change", CHANGES, ids=[str(number) for number in range(len(CHANGES))])
def test_every_change_is_noticed(change: Callable[[Path], object], folder: Path, tmp_path: Path):
    (folder / "link").symlink_to("train.py")
    (folder / "rules").write_text("x.bin\n")
    before = remembered(folder, tmp_path)
    change(folder)
    after = remembered(folder, tmp_path)
    assert after == build_source_bundle(folder), "as without a memory"
    assert after != before
    assert remembered(folder, tmp_path) == after


def test_rules_that_are_not_in_the_folder_count_too(tmp_path: Path):
    """Those of a folder above in the repository, of its own file, and those behind a link."""
    top = tmp_path / "top"
    (top / "src/sub").mkdir(parents=True)
    for name in ("a.one", "b.two", "c.three", "sub/d.four"):
        (top / "src" / name).touch()
    (tmp_path / "rules").write_text("# none\n")
    (top / "src/sub/.gitignore").symlink_to(tmp_path / "rules")
    git(top, "init", "-q")
    changes = [
        lambda: (top / ".gitignore").write_text("*.one\n"),
        lambda: (top / ".git/info/exclude").write_text("*.two\n"),
        lambda: (tmp_path / "more").write_text("*.three\n"),
        lambda: git(top, "config", "core.excludesFile", str(tmp_path / "more")),
        lambda: (top / ".git").rename(tmp_path / "gone"),
        lambda: (tmp_path / "rules").write_text("*.four\n"),
    ]
    counts = []
    for change in changes:
        change()
        bundle = remembered(top / "src", tmp_path)
        assert bundle == build_source_bundle(top / "src")
        counts.append(len(bundle.entries))
    assert counts == [3, 2, 2, 1, 4, 3]


def test_a_repository_inside_it_is_watched_as_well(folder: Path, tmp_path: Path):
    inner = folder / "dep"
    inner.mkdir()
    (inner / "lib.py").touch()
    git(inner, "init", "-q")
    git(inner, "add", ".")
    for text in ("*.o\n", "*.py\n"):
        (inner / ".gitignore").write_text(text)
        (inner / "x.o").write_text(text)
        assert remembered(folder, tmp_path) == build_source_bundle(folder)


def test_whatever_is_done_to_a_folder_the_memory_changes_nothing(folder: Path, tmp_path: Path):
    chance = random.Random(7)
    names = ["a", "b.py", "c.log", "d", ".gitignore", ".gpulayerignore", "pyvenv.cfg", "a/b.py"]
    texts = ["", "*.log\n", "!c.log\n", "a/\n", "/d\n", "b.*\n!d/b.py\n"]
    for _ in range(60):
        path = folder / chance.choice(["", "lib", "a", "d"]) / chance.choice(names)
        other = folder / chance.choice(["", "lib", "d"]) / chance.choice(names)
        act: Callable[[], object] = chance.choice(
            [
                lambda path=path: path.write_text(chance.choice(texts)),
                lambda path=path: path.unlink(),
                lambda path=path: path.mkdir(parents=True),
                lambda path=path, other=other: path.rename(other),
                lambda path=path, other=other: path.symlink_to(other),
                lambda path=path: path.chmod(chance.choice([0o644, 0o755])),
            ]
        )
        try:
            act()
        except OSError:
            continue
        assert said_of(folder, memory(tmp_path)) == said_of(folder, NOTHING_SEEN)


def said_of(folder: Path, known: Seen) -> Bundle | str:
    try:
        return build_source_bundle(folder, seen=known)
    except RefusedError as error:
        return str(error)


# --- what it does not believe -------------------------------------------------------------------


def test_what_changed_a_moment_ago_is_read_again(folder: Path, tmp_path: Path):
    """It may change once more in the same tick of the file system's clock."""
    young = memory(tmp_path, later=1.0)
    build_source_bundle(folder, seen=young)
    assert calls(lambda: build_source_bundle(folder, seen=young))["_checked"] == len(FILES)


def test_one_young_file_among_old_ones_is_enough(folder: Path, tmp_path: Path):
    for path in FILES:
        os.utime(folder / path, (1, 1))
    remembered(folder, tmp_path)
    in_place(folder)
    young = memory(tmp_path, later=1.0)
    build_source_bundle(folder, seen=young)
    assert calls(lambda: build_source_bundle(folder, seen=young))["_checked"] == len(FILES)


@pytest.mark.parametrize("cut", [0, 1, 30, 200, -1])
def test_a_damaged_memory_is_none(folder: Path, tmp_path: Path, cut: int):
    digest = remembered(folder, tmp_path).digest
    (file,) = (tmp_path / "seen").iterdir()
    whole = file.read_bytes()
    for damaged in (whole[:cut], whole[:cut] + b"?" + whole[cut:][1:], b"[]", b"{"):
        file.write_bytes(damaged)
        known = memory(tmp_path)
        assert known.last(str(folder) + "/") is None
        assert build_source_bundle(folder, seen=known).digest == digest


def test_what_it_held_last_is_told_though_it_has_changed(folder: Path, tmp_path: Path):
    before = remembered(folder, tmp_path)
    (folder / "Z").unlink()
    last = memory(tmp_path).last(str(folder) + "/")
    assert last is not None
    assert (last.entries, last.digest) == (before.entries, before.digest)


def test_the_memory_does_not_grow_without_end(tmp_path: Path):
    for number in range(70):
        made = tmp_path / "many" / str(number)
        made.mkdir(parents=True)
        remembered(made, tmp_path)
    assert len(list((tmp_path / "seen").iterdir())) == 64
