"""The files of a checkpoint: what a worker sends, a plane keeps, and another worker puts back.

{path, digest, size, executable, mtime_ns}    a file
{path, link}                                  a link to something inside the folder
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpulayer.contracts import limits
from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.ids import Digest
from gpulayer.contracts.named import DIGEST
from gpulayer.contracts.safe_paths import path_fault
from gpulayer.errors import UsageError

_FILE = {"path": "str", "digest": "str", "size": "int", "executable": "bool", "mtime_ns": "int"}
_LINK = {"path": "str", "link": "str"}


def require_files(files: Sequence[Mapping[str, Any]]) -> None:
    """Raises UsageError for a list of which something could not be put back, or would be put
    somewhere else."""
    if not 0 < len(files) <= limits.CHECKPOINT_FILES:
        raise UsageError(
            "usage", f"a checkpoint has 1 to {limits.CHECKPOINT_FILES} files, not {len(files)}"
        )
    for file in files:
        kinds = _LINK if "link" in file else _FILE
        fitted("a file of a checkpoint", file, kinds)
        if any(name not in file for name in kinds):
            raise UsageError("usage", "a file of a checkpoint lacks a field")
        fault = path_fault(file["path"])
        if fault is not None:
            raise UsageError("usage", f"the path of a file of a checkpoint {fault[0]}")
        if "link" in file and not stays_inside(file["path"], file["link"]):
            raise UsageError("usage", "a link of a checkpoint leads out of its folder")
        if "digest" in file and (not DIGEST.fullmatch(file["digest"]) or file["size"] < 0):
            raise UsageError("usage", "a file of a checkpoint has no digest")
    _require_distinct([file["path"] for file in files])


def stays_inside(path: str, link: str) -> bool:
    """Whether a link at `path`, relative to the folder, leads to something in the folder."""
    if not link or "\0" in link or link.startswith("/") or len(link) > limits.PATH_BYTES:
        return False
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target != ".." and not target.startswith("../")


def digests_of(files: Iterable[Mapping[str, Any]]) -> frozenset[Digest]:
    return frozenset(Digest(file["digest"]) for file in files if "digest" in file)


def size_of(files: Iterable[Mapping[str, Any]]) -> int:
    return sum(int(file.get("size", 0)) for file in files)


def _require_distinct(paths: Sequence[str]) -> None:
    """No two of one name, and none below another."""
    known = set(paths)
    above = {path[:at] for path in paths for at, sign in enumerate(path) if sign == "/"}
    if len(known) < len(paths) or known & above:
        raise UsageError("usage", "two files of a checkpoint have one name")
