"""An archive from anybody is unpacked exactly, or not at all. (Reliability: hostile archives.)"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpulayer.artifacts import extract_bundle
from gpulayer.contracts import limits
from gpulayer.errors import RefusedError
from tests.unit.artifacts.hostile_zips import (
    Ground,
    info,
    patched,
    raw_name,
    tree,
    zipped,
)


def test_a_plain_stored_zip_of_another_program_is_taken(ground: Ground):
    data = zipped(("b/x.py", b"x"), ("a", b""), (info("run.sh", 0o100755), b"#!"))
    assert ground.takes(data) == {
        "b/x.py": (b"x", 0o644), "a": (b"", 0o644), "run.sh": (b"#!", 0o755),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "kept"), [(0o104755, 0o755), (0o102777, 0o755), (0o100666, 0o644), (0o101000, 0o644)]
)
def test_modes_are_masked(ground: Ground, mode: int, kept: int):
    assert ground.takes(zipped((info("x", mode), b""))) == {"x": (b"", kept)}


def test_the_umask_does_not_matter_and_the_folder_is_private(ground: Ground):
    before = os.umask(0o077)
    try:
        assert ground.takes(zipped((info("d/x", 0o100755), b"")))["d/x"][1] == 0o755
    finally:
        os.umask(before)
    assert stat.S_IMODE(ground.target.stat().st_mode) == 0o700
    assert stat.S_IMODE((ground.target / "d").stat().st_mode) == 0o700


def test_a_target_that_is_not_empty_is_left_alone(ground: Ground):
    ground.target.mkdir()
    (ground.target / "mine").write_text("x")
    ground.archive.write_bytes(zipped(("mine", b"theirs")))
    with pytest.raises(RefusedError, match="empty folder"):
        extract_bundle(ground.archive, ground.target)
    assert tree(ground.target)["mine"][0] == b"x"


def test_a_target_that_is_a_link_is_not_followed(ground: Ground, tmp_path: Path):
    (tmp_path / "inner" / "target").symlink_to(tmp_path)
    ground.archive.write_bytes(zipped(("x", b"theirs")))
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        extract_bundle(ground.archive, ground.target)
    assert not (tmp_path / "x").exists()


def test_an_announced_digest_is_compared_first(ground: Ground):
    data = zipped(("x", b"1"))
    ground.archive.write_bytes(data)
    with pytest.raises(RefusedError) as refused:
        extract_bundle(ground.archive, ground.target, hashlib.sha256(b"other").hexdigest())
    assert refused.value.code == "digest-mismatch"
    assert not ground.target.exists()
    assert extract_bundle(ground.archive, ground.target, hashlib.sha256(data).hexdigest()) == ["x"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../x", "leaves the job directory"),
        ("a/../../x", "leaves the job directory"),
        ("a/..", "leaves the job directory"),
        ("/x", "is absolute"),
        ("//host/x", "is absolute"),
        ("C:/x", "has a drive letter"),
        ("c:x", "has a drive letter"),
        ("\\\\host\\x", "has a backslash"),
        ("..\\x", "has a backslash"),
        ("a\\b", "has a backslash"),
        ("./x", "has a part that is empty or ."),
        ("a//b", "has a part that is empty or ."),
        ("a/./b", "has a part that is empty or ."),
        ("a\nb", "holds a control character"),
        ("a\x1b[31mb", "holds a control character"),
        ("a\u202eb", "holds a control character"),
        ("a\x7fb", "holds a control character"),
        ("p" * 256, "has a part longer than 255 bytes"),
        ("/".join("ab" * 64), "is longer than 1024 bytes or 64 folders"),
        ("/".join(["p" * 250] * 5), "is longer than 1024 bytes or 64 folders"),
        ("folder/", "it is a folder"),
    ],
)
def test_names_that_leave_or_mislead_are_refused(ground: Ground, name: str, why: str):
    assert why in ground.refuses(zipped(("fine", b""), (name, b"")))


def test_a_name_of_raw_bytes_is_refused(ground: Ground):
    assert "control character" in ground.refuses(raw_name(b"good\0.py"))
    assert "not UTF-8" in ground.refuses(raw_name(b"a\xffb"))
    cp437 = raw_name("ö".encode())  # without the flag that says UTF-8
    assert "not UTF-8" in ground.refuses(cp437)


def test_a_name_is_as_long_as_it_may_be(ground: Ground):
    long = "/".join([*["p" * 250] * 4, "q" * 20])
    assert len(long) == limits.PATH_BYTES
    assert list(ground.takes(zipped((long, b"")))) == [long]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a", "a"), ("a/b", "a/b"), ("A", "a"), ("x/A", "x/a"), ("ß", "SS"), ("A/x", "a/y"),
        ("é", "e\u0301"), ("a", "a/b"), ("a/b", "a"), ("A", "a/b"), ("a/b/c", "a/B"),
        ("\u017f", "s"), ("\u212a", "k"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_twins_are_refused_before_anything_is_written(ground: Ground, one: str, two: str):
    assert "same name" in ground.refuses(zipped(("first", b""), (one, b"1"), (two, b"2")))


@pytest.mark.parametrize(
    "kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFDIR]
)
def test_links_and_devices_are_refused(ground: Ground, kind: int):
    assert "link, a folder or a device" in ground.refuses(
        zipped((info("x", kind | 0o777), b"/etc/passwd"))
    )


def test_a_link_with_a_file_through_it_is_refused(ground: Ground):
    link = info("out", stat.S_IFLNK | 0o777)
    ground.refuses(zipped((link, b"../.."), ("out/x", b"")))


def test_a_folder_by_the_attributes_of_dos_is_refused(ground: Ground):
    ground.refuses(zipped((info("x", 0, create_system=0, external_attr=0x10), b"")))


def test_a_tar_is_not_accepted(ground: Ground):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    assert "does not end as a zip" in ground.refuses(data.getvalue())
    assert "does not end as a zip" in ground.refuses(b"")


def test_a_compressed_bomb_is_not_unpacked(ground: Ground):
    assert "not stored as it is" in ground.refuses(
        zipped(("x", b"aaaa"), compression=zipfile.ZIP_DEFLATED)
    )
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        data = zipped(("zeros", bytes(2 << 20)), compression=method)
        assert len(data) < 1 << 20
        ground.refuses(data)


def test_a_size_that_lies_is_refused(ground: Ground):
    data = zipped(("x", b"0123456789"))
    central, local = b"PK\x01\x02", b"PK\x03\x04"
    for size in (0, 9, 11, 1 << 31, 0xFFFFFFFF):
        packed = struct.pack("<I", size)
        assert "two sizes" in ground.refuses(patched(data, central, 24, packed))
        both = patched(data, central, 20, packed * 2)
        assert "header is not what" in ground.refuses(both)
        all_four = patched(both, local, 18, packed * 2)
        assert "more in it" in ground.refuses(all_four)


def test_declared_sizes_are_bounded(ground: Ground, tmp_path: Path):
    """Without their bytes: no archive of 2 GiB is needed to see that it would be too much."""
    with open(ground.archive, "wb") as file:
        name, size = b"x", limits.SOURCE_UNPACKED_BYTES + 1
        local = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 0, 0, size, size, 1, 0)
        file.write(local + name)
        file.seek(size, os.SEEK_CUR)
        start = file.tell()
        file.write(
            struct.pack(
                "<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, size, size, 1, 0, 0, 0, 0, 0, 0
            )
            + name
            + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 47, start, 0)
        )
    with pytest.raises(RefusedError) as refused:
        extract_bundle(ground.archive, ground.target)
    assert refused.value.why == "its files hold more than 2 GiB"
    assert not ground.target.exists()


def test_too_many_entries_are_refused_before_they_are_read(ground: Ground):
    data = zipped(("x", b""))
    for count in (limits.SOURCE_ENTRIES + 1, 0xFFFF):
        packed = struct.pack("<2H", count, count)
        why = ground.refuses(patched(data, b"PK\x05\x06", 8, packed))
        assert f"it has {count} entries" in why


def test_bytes_that_are_not_those_of_the_checksum_are_refused(ground: Ground):
    data = zipped(("a", b"first"), ("x", b"0123456789"))
    assert "checksum" in ground.refuses(data.replace(b"0123456789", b"0123456780"))
