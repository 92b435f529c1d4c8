"""Equal folders are equal bundles, and a bundle is the folder less what is no source."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from gpulayer.artifacts import build_source_bundle, extract_bundle, zip_layout as layout
from gpulayer.artifacts.bundle import Bundle, require_limits
from gpulayer.artifacts.ignoring import Rules
from gpulayer.artifacts.listing import Found, Listing
from gpulayer.artifacts.zip_layout import Entry
from gpulayer.contracts import limits
from gpulayer.errors import NotFoundError, RefusedError

FILES = {"train.py": b"print(1)\n", "data/x.bin": bytes(range(256)), "Z": b"", "a/b/c.txt": b"c"}


def tree(top: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(data)
    return top


def paths(bundle: Bundle) -> list[str]:
    return [entry.path for entry in bundle.entries]


def git(folder: Path, *words: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tree(tmp_path / "src", FILES)


# --- the bytes --------------------------------------------------------------------------------


def test_the_bytes_are_these_on_every_system(folder: Path):
    (folder / "train.py").chmod(0o700)
    bundle = build_source_bundle(folder)
    assert paths(bundle) == ["Z", "a/b/c.txt", "data/x.bin", "train.py"]
    assert bundle.digest == "352eca4447a4f52eb598aaab673f02be4e63658401e4eae4c7274433e75168b9"
    assert hashlib.sha256(b"".join(bundle.chunks())).hexdigest() == bundle.digest
    assert len(b"".join(bundle.chunks())) == bundle.size


def test_neither_order_nor_times_nor_place_matter(folder: Path, tmp_path: Path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    tree(other, dict(reversed(FILES.items())))
    os.utime(other / "train.py", (1, 1))
    (other / "Z").chmod(0o604)
    assert build_source_bundle(other).digest == build_source_bundle(folder).digest


def test_other_zips_read_it(folder: Path):
    (folder / "a/b/c.txt").chmod(0o755)
    data = io.BytesIO(b"".join(build_source_bundle(folder).chunks()))
    with zipfile.ZipFile(data) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == FILES
        infos = archive.infolist()
    assert {info.compress_type for info in infos} == {zipfile.ZIP_STORED}
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    modes = {info.filename: info.external_attr >> 16 for info in infos}
    assert modes.pop("a/b/c.txt") == 0o100755
    assert set(modes.values()) == {0o100644}


def test_what_is_unpacked_is_what_was_packed(folder: Path, tmp_path: Path):
    large = os.urandom(1000) * 3000
    tree(folder, {"large": large, "ünïcode/ф.py": b"x", "with space": b"y"})
    (folder / "train.py").chmod(0o777)
    build_source_bundle(folder).write(tmp_path / "bundle")
    assert len(extract_bundle(tmp_path / "bundle", tmp_path / "out")) == 7
    out = tmp_path / "out"
    assert (out / "large").read_bytes() == large
    assert (out / "ünïcode/ф.py").read_bytes() == b"x"
    assert (out / "train.py").stat().st_mode & 0o7777 == 0o755
    assert (out / "Z").stat().st_mode & 0o7777 == 0o644
    assert build_source_bundle(out).digest == build_source_bundle(folder).digest


def test_an_empty_folder_is_a_bundle(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    bundle = build_source_bundle(tmp_path / "empty")
    bundle.write(tmp_path / "bundle")
    assert extract_bundle(tmp_path / "bundle", tmp_path / "out") == []
    assert bundle.say() == "bundle: 0 files, 47 B"


def test_a_file_that_changes_while_it_is_sent_ends_the_sending(folder: Path):
    bundle = build_source_bundle(folder)
    (folder / "train.py").write_bytes(b"print(2)\n")
    with pytest.raises(RefusedError, match=r"'train.py' changed") as refused:
        list(bundle.chunks())
    assert refused.value.code == "source-refused"


# --- what is source ---------------------------------------------------------------------------


def test_links_caches_environments_and_version_control_are_left_out(folder: Path):
    tree(
        folder,
        {
            ".venv/pyvenv.cfg": b"", ".venv/bin/python": b"", "env2/pyvenv.cfg": b"",
            "a/__pycache__/m.pyc": b"", "__pycache__/m.pyc": b"", ".hg/store": b"",
            "old.pyc": b"", ".mypy_cache/x": b"",
        },
    )  # fmt: skip
    (folder / "link").symlink_to(folder / "train.py")
    (folder / "dir-link").symlink_to(folder / "a")
    os.mkfifo(folder / "pipe")
    bundle = build_source_bundle(folder)
    assert paths(bundle) == sorted(FILES)
    assert bundle.say() == (
        "bundle: 4 files, 673 B (left out: .hg/ (version control), "
        ".mypy_cache/, __pycache__/, old.pyc (cache), .venv/, env2/ (virtual environment), "
        "dir-link, link (a link), pipe (not a file))"
    )


def test_the_project_has_a_word_of_its_own(folder: Path):
    tree(folder, {
        ".gitignore": b"*.log\nout/\n", "a/.gitignore": b"b\n", "x.log": b"", "out/weights": b"",
        "out/keep.log": b"", ".gpulayerignore": b"# large\n/data/\n!keep.log\n",
    })  # fmt: skip
    bundle = build_source_bundle(folder)
    assert paths(bundle) == [
        ".gitignore", ".gpulayerignore", "Z", "a/.gitignore", "out/keep.log", "train.py",
    ]  # fmt: skip
    assert "data/ (.gpulayerignore)" in bundle.say()
    assert "a/b/, out/, x.log (.gitignore)" in bundle.say()


def test_in_a_repository_git_says_what_is_ignored(folder: Path):
    """With the same answer as our own walk, but that a file which git keeps is not ignored."""
    tree(folder, {
        ".gitignore": b"*.log\nout/\n", "a/.gitignore": b"b\n", "x.log": b"", "out/weights": b"",
        "out/keep.log": b"", ".gpulayerignore": b"# large\n/data/\n!keep.log\n", "kept.log": b"",
        ".venv/pyvenv.cfg": b"", ".venv/bin/x": b"", "a/__pycache__/m.pyc": b"", "gone.py": b"",
    })  # fmt: skip
    git(folder, "init")
    git(folder, "add", "-f", "train.py", "kept.log", "gone.py", "a/__pycache__/m.pyc")
    (folder / "gone.py").unlink()
    (folder / "link").symlink_to("train.py")
    bundle = build_source_bundle(folder)
    assert paths(bundle) == [
        ".gitignore", ".gpulayerignore", "Z", "a/.gitignore", "kept.log", "out/keep.log",
        "train.py",
    ]  # fmt: skip
    said = bundle.say()
    for part in (".git/ (version control)", "out/", "x.log", "data/x.bin (.gpulayerignore)",
                 ".venv/ (virtual environment)", "link (a link)"):  # fmt: skip
        assert part in said


def test_a_folder_below_the_top_of_a_repository(folder: Path):
    tree(folder, {".gitignore": b"*.log\n", "a/x.log": b"", "ignored/x.py": b""})
    git(folder, "init")
    assert paths(build_source_bundle(folder / "a")) == ["b/c.txt"]


def test_a_folder_that_git_ignores_whole_is_sent_all_the_same(folder: Path):
    tree(folder, {".gitignore": b"run/\n", "run/x.py": b""})
    git(folder, "init")
    assert paths(build_source_bundle(folder / "run")) == ["x.py"]


def test_a_repository_inside_a_repository_is_source_too(folder: Path):
    tree(folder, {"dep/lib.py": b"", "dep/.gitignore": b"*.o\n", "dep/lib.o": b""})
    for repository in (folder, folder / "dep"):
        git(repository, "init")
    git(folder / "dep", "add", ".")
    git(folder / "dep", "commit", "-m", "x")
    assert "dep/lib.py" in paths(build_source_bundle(folder))
    assert "dep/lib.o" not in paths(build_source_bundle(folder))
    git(folder, "add", "dep")
    assert "dep/lib.py" in paths(build_source_bundle(folder))


def test_a_repository_cannot_make_us_run_its_programs(folder: Path, tmp_path: Path):
    git(folder, "init")
    git(folder, "config", "core.fsmonitor", f"touch {tmp_path}/ran #")
    assert "train.py" in paths(build_source_bundle(folder))
    assert not (tmp_path / "ran").exists()


def test_what_the_caller_leaves_out_is_not_named(folder: Path):
    bundle = build_source_bundle(folder, without=[str(folder / "data")])
    assert paths(bundle) == ["Z", "a/b/c.txt", "train.py"]


@pytest.mark.parametrize(
    ("pattern", "out", "kept"),
    [
        ("*.py", ["a.py", "d/a.py"], ["a.pyc"]),
        ("/a", ["a", "a/x"], ["d/a"]),
        ("d/a", ["d/a"], ["x/d/a"]),
        ("d/", ["d/a", "x/d/a"], ["d", "x/d"]),
        ("**/d/*.c", ["d/x.c", "x/y/d/x.c"], ["d/e/x.c"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["x/a/b"]),
        ("a/**", ["a/b", "a/x/y"], ["a"]),
        ("[a-c]?.x", ["a1.x", "d/b2.x"], ["a.x", "dd.x"]),
        ("[!a]b", ["xb"], ["ab", "/b"]),
        ("\\!a", ["!a"], ["a"]),
        ("\\#a", ["#a"], ["a"]),
        ("a\\ ", ["a "], ["a"]),
        ("#a", [], ["#a", "a"]),
        ("[", [], ["["]),
    ],
)
def test_patterns_are_those_of_git(pattern: str, out: list[str], kept: list[str], tmp_path: Path):
    rules = Rules([pattern + "\n"])
    assert [rules.fate(path) for path in out] == [True] * len(out)
    assert [rules.fate(path) for path in kept] == [None] * len(kept)
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text(pattern + "\n")
    names = "\0".join(path for path in [*out, *kept] if not path.startswith("/"))
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=tmp_path, input=names, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert asked.stdout.split("\0")[:-1] == out


# --- refusals ---------------------------------------------------------------------------------


def test_a_home_folder_and_what_holds_it_are_refused_at_once(folder: Path, tmp_path: Path):
    for where in (folder, tmp_path, Path("/")):
        with pytest.raises(RefusedError, match="is not sent as source") as refused:
            build_source_bundle(where, home=str(folder))
        assert refused.value.code == "source-refused"
    assert build_source_bundle(folder / "a", home=str(folder)).entries


def test_no_folder_is_not_found(tmp_path: Path):
    with pytest.raises(NotFoundError):
        build_source_bundle(tmp_path / "none")


def test_names_that_are_one_elsewhere_are_refused(folder: Path):
    (folder / "TRAIN.py").touch()
    with pytest.raises(RefusedError, match="one name on some systems") as refused:
        build_source_bundle(folder)
    subprocess.run(["sh", "-c", refused.value.help[0]], check=True)
    assert (folder / ".gpulayerignore").read_text() == "/train.py\n"
    assert "TRAIN.py" in paths(build_source_bundle(folder))


def test_a_name_that_no_archive_may_have_is_left_out_and_said(folder: Path):
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch()
    (folder / "new\nline").touch()
    bundle = build_source_bundle(folder)
    assert paths(bundle) == sorted(FILES)
    said = bundle.say()
    assert "new\\nline, \\udcff (a name that a file elsewhere cannot have)" in said
    assert said.isascii()


def test_a_file_that_became_a_link_is_not_followed(folder: Path):
    bundle = build_source_bundle(folder)
    (folder / "Z").unlink()
    (folder / "Z").symlink_to("train.py")
    with pytest.raises(RefusedError, match="'Z' cannot be read"):
        list(bundle.chunks())


@pytest.mark.parametrize(
    ("most", "shown"), [(limits.SOURCE_BYTES, "268.4 MB"), (limits.FOLDER_BYTES, "2.1 GB")]
)
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_bundle_is_as_large_as_its_limit_and_no_larger(
    folder: Path, more: int, most: int, shown: str
):
    fixed = layout.size_of([Entry("bigfile", 0, 0, False), Entry("a/small", 5, 0, False)])
    big = most - fixed + more
    listing = Listing([found("bigfile", big), found("a/small", 5)])
    if more <= 0:
        require_limits(str(folder), listing, most)
        return
    with pytest.raises(RefusedError) as refused:
        require_limits(str(folder), listing, most)
    error = refused.value
    assert error.code == "too-large"
    assert f"2 files of {shown}" in error.message
    assert error.why == f"the largest:\n{shown:>8}  bigfile\n     5 B  a/small"
    assert error.help[0].startswith("echo /bigfile >> ")
    tree(folder, {"bigfile": b""})
    subprocess.run(["sh", "-c", error.help[0]], check=True)
    assert "bigfile" not in paths(build_source_bundle(folder))


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_so_many_files_and_no_more(folder: Path, more: int):
    count = limits.SOURCE_ENTRIES + more
    listing = Listing([found(f"many/{number}", number) for number in range(count)])
    if more <= 0:
        require_limits(str(folder), listing, limits.SOURCE_BYTES)
        return
    with pytest.raises(RefusedError) as refused:
        require_limits(str(folder), listing, limits.SOURCE_BYTES)
    assert "20,001 files" in refused.value.message
    assert len(refused.value.details["largest"]) == 10
    assert refused.value.help[0].startswith("echo /many >> ")


def found(path: str, size: int) -> Found:
    return Found(path, size, False, (0, 0, 0))
