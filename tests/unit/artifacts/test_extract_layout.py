"""An archive that no bundle could be: bytes between, headers that lie, and ten thousand mutants."""

from __future__ import annotations

import io
import random
import shutil
import struct
import zipfile
from collections.abc import Callable

import pytest

from gpulayer.artifacts import build_source_bundle, extract_bundle
from gpulayer.errors import RefusedError
from tests.unit.artifacts.hostile_zips import (
    Ground,
    bundle_of,
    info,
    patched,
    zipped,
)

MUTANTS = 10_000


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
