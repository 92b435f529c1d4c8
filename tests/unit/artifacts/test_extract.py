"""An archive from anybody is unpacked exactly, or not at all. (Reliability: hostile archives.)"""

from __future__ import annotations

import hashlib
import io
import os
import random
import shutil
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulayer.artifacts import build_source_bundle, extract_bundle
from gpulayer.contracts import limits
from gpulayer.errors import RefusedError

MUTANTS = 10_000
Tree = dict[str, tuple[bytes, int]]


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], **how: int) -> bytes:
    """What another program makes of these entries."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", **how) as archive:  # type: ignore[arg-type]
        for name, content in entries:
            archive.writestr(name, content)
    return data.getvalue()


def info(name: str, mode: int = 0o100644, **fields: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.create_system = 3
    made.external_attr = mode << 16
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def raw_name(name: bytes) -> bytes:
    """An archive whose only entry has these very bytes as its name."""
    return zipped(("x" * len(name), b"data")).replace(b"x" * len(name), name)


def patched(data: bytes, what: bytes, offset: int, replacement: bytes) -> bytes:
    """`data` with bytes replaced at an offset from the last place of `what`."""
    at = data.rindex(what) + offset
    return data[:at] + replacement + data[at + len(replacement) :]


def tree(top: Path) -> Tree:
    return {
        str(path.relative_to(top)): (path.read_bytes(), stat.S_IMODE(path.lstat().st_mode))
        for path in top.rglob("*")
        if not path.is_dir()
    }


class Ground:
    """A folder in which archives are unpacked, with neighbours that nothing may touch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "archive"
        self.target = folder / "inner" / "target"
        self.target.parent.mkdir()
        (folder / "neighbour").write_text("untouched")

    def refuses(self, data: bytes, slug: str = "bad-bundle") -> str:
        """The reason, with nothing left behind: neither where there was no target nor in one."""
        self.archive.write_bytes(data)
        reasons = set()
        for is_there in (False, True):
            if is_there:
                self.target.mkdir()
            with pytest.raises(RefusedError) as refused:
                extract_bundle(self.archive, self.target)
            assert refused.value.code == slug
            reasons.add(refused.value.why)
            assert self.target.exists() == is_there
        assert list(self.target.iterdir()) == []
        self.target.rmdir()
        self.is_untouched()
        (reason,) = reasons
        assert reason.isprintable()
        return reason

    def takes(self, data: bytes) -> Tree:
        self.archive.write_bytes(data)
        extract_bundle(self.archive, self.target)
        found = tree(self.target)
        self.is_untouched()
        return found

    def is_untouched(self) -> None:
        assert {path.name for path in self.folder.iterdir()} <= {"archive", "inner", "neighbour"}
        assert [path.name for path in self.target.parent.iterdir()] in ([], ["target"])
        assert (self.folder / "neighbour").read_text() == "untouched"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def bundle_of(tmp_path: Path, files: dict[str, bytes]) -> bytes:
    source = tmp_path / "source"
    for path, content in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(content)
    return b"".join(build_source_bundle(source).chunks())


# --- what is taken ----------------------------------------------------------------------------


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


# --- names ------------------------------------------------------------------------------------


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


# --- kinds ------------------------------------------------------------------------------------


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


# --- sizes ------------------------------------------------------------------------------------


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


# --- layout -----------------------------------------------------------------------------------


def test_bytes_before_between_and_after_are_refused(ground: Ground):
    data = zipped(("a", b"1"), ("b", b"2"))
    ground.refuses(b"#!/bin/sh\n" + data)
    ground.refuses(data + b"\0")
    ground.refuses(data + data)
    ground.refuses(data[:-1])
    cut = data.rindex(b"PK\x01\x02")
    ground.refuses(data[:cut] + b"junk" + data[cut:])
    first = data.index(b"PK\x01\x02")
    shifted = data[:first] + b"hidden" + data[first:]
    offset = struct.pack("<I", first + len(b"hidden"))
    assert "more in it" in ground.refuses(patched(shifted, b"PK\x05\x06", 16, offset))


def test_an_archive_with_a_comment_is_refused(ground: Ground):
    for comment in (b"hello", b"x" * 25):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("a", b"")
            archive.comment = comment
        ground.refuses(data.getvalue())


def test_overlapping_entries_are_refused(ground: Ground):
    data = zipped(("a", b"same"), ("b", b"same"))
    second = data.rindex(b"PK\x01\x02")
    assert "does not begin where" in ground.refuses(
        data[: second + 42] + struct.pack("<I", 0) + data[second + 46 :]
    )


def test_zip64_extra_fields_and_descriptors_are_refused(ground: Ground):
    assert "more than a file" in ground.refuses(
        zipped((info("x", extra=b"\x01\x00\x08\x00" + bytes(8)), b""))  # type: ignore[arg-type]
    )

    class Pipe(io.BytesIO):
        """Cannot seek, so that sizes come after the bytes."""

        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError("no")

        def tell(self) -> int:
            raise OSError("no")

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        archive.writestr("x", b"data")
    assert "flags" in ground.refuses(pipe.getvalue())


@pytest.mark.parametrize("flag", [0x1, 0x2, 0x8, 0x20, 0x40, 0x2000, 0x8000])
def test_encrypted_entries_and_unknown_flags_are_refused(ground: Ground, flag: int):
    data = zipped(("x", b"data"))
    data = patched(data, b"PK\x01\x02", 8, struct.pack("<H", flag))
    data = patched(data, b"PK\x03\x04", 6, struct.pack("<H", flag))
    assert "flags that no bundle has" in ground.refuses(data)


@pytest.mark.parametrize(
    ("offset", "replacement"),
    [(4, b"\x0a"), (6, b"\x08"), (8, b"\x08"), (10, b"\1"), (14, b"\1"), (26, b"\2"), (30, b"y")],
)
def test_a_local_header_that_says_otherwise_is_refused(
    ground: Ground, offset: int, replacement: bytes
):
    data = zipped(("x", b"data"))
    assert "header is not what" in ground.refuses(patched(data, b"PK\x03\x04", offset, replacement))


@pytest.mark.parametrize(
    ("offset", "replacement"),
    [(4, b"\1"), (6, b"\1"), (8, b"\2"), (10, b"\2"), (12, b"\1"), (16, b"\1"), (20, b"\1")],
)
def test_an_end_that_says_otherwise_is_refused(ground: Ground, offset: int, replacement: bytes):
    ground.refuses(patched(zipped(("x", b"data")), b"PK\x05\x06", offset, replacement))


def test_a_seal_that_is_not_of_this_directory_is_refused(
    ground: Ground, tmp_path_factory: pytest.TempPathFactory
):
    data = bundle_of(tmp_path_factory.mktemp("sealed"), {"x": b"data"})
    assert "sealed" in ground.refuses(data[:-1] + bytes([data[-1] ^ 1]))
    assert "sealed" in ground.refuses(patched(data, b"PK\x01\x02", 40, b"\xed"))


# --- mutants ----------------------------------------------------------------------------------


def test_mutants_are_refused_and_leave_nothing(
    ground: Ground, tmp_path_factory: pytest.TempPathFactory
):
    """Ten thousand, of fixed seeds: bytes flipped, set, cut, doubled, moved and put in."""
    files = {"a.py": b"import os\n", "d/e/f": bytes(range(64)), "d/g": b"", "ü/run": b"#!/bin/sh\n"}
    home = tmp_path_factory.mktemp("mutants")
    data = bundle_of(home, files)
    source = home / "source"
    (source / "ü/run").chmod(0o755)
    data = b"".join(build_source_bundle(source).chunks())
    expected = {path: (content, 0o644) for path, content in files.items()}
    expected["ü/run"] = (files["ü/run"], 0o755)
    assert ground.takes(data) == expected
    shutil.rmtree(ground.target)
    tried = 0
    for seed in range(MUTANTS):
        mutant = mutated(data, random.Random(seed))
        if mutant == data:
            continue
        tried += 1
        with pytest.raises(RefusedError):  # each: the seal lets no other one pass
            extract_bundle(io.BytesIO(mutant), ground.target)
        assert not ground.target.exists(), seed
    ground.is_untouched()
    assert tried > MUTANTS * 0.9


def mutated(data: bytes, chance: random.Random) -> bytes:
    way = chance.choice(WAYS)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        data = way(data, chance) if len(data) > 50 else data
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _set(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([chance.choice((0, 1, 0x2F, 0x2E, 0x5C, 0x7F, 0xFF))]) + data[at + 1 :]


def _set_number(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) - 4)
    number = struct.pack("<I", chance.choice((0, 1, len(data), 1 << 31, 0xFFFFFFFF)))
    return data[:at] + number + data[at + 4 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(data)), chance.randrange(1, 40)
    return data[:at] + data[at + length :] or b"\0"


def _double(data: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(data)), chance.randrange(1, 120)
    return data[: at + length] + data[at:]


def _move(data: bytes, chance: random.Random) -> bytes:
    at, to, length = (chance.randrange(len(data)) for _ in range(3))
    piece, rest = data[at : at + length], data[:at] + data[at + length :]
    return rest[:to] + piece + rest[to:]


def _put_in(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    piece = chance.choice((b"PK\x05\x06", b"PK\x01\x02", b"PK\x03\x04", b"\0", b"../", bytes(22)))
    return data[:at] + piece + data[at:]


def _end_early(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(1, len(data))]


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _flip, _set, _set, _set_number, _cut, _double, _move, _put_in, _end_early,
)  # fmt: skip
