"""Archives as nobody should make them, and ground on which to unpack them."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from gpulayer.artifacts import build_source_bundle, extract_bundle
from gpulayer.errors import RefusedError

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


def bundle_of(tmp_path: Path, files: dict[str, bytes]) -> bytes:
    source = tmp_path / "source"
    for path, content in files.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(content)
    return b"".join(build_source_bundle(source).chunks())
