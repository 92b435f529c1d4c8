"""Which relative paths are safe on every system. Without pydantic: workers check archives by it."""

from __future__ import annotations

import re

from gpulayer.contracts import limits


def path_fault(value: str) -> tuple[str, str] | None:
    """Why a relative path is not safe and what to do; None if it is.

    Safe on every system: no root, drive letter, backslash, NUL or control character, and no part
    that is empty, `.` or `..`.
    """
    parts = value.split("/")
    mend = 'use a path relative to the job, such as "data/x"'
    if not value:
        return "is empty", mend
    if "\0" in value or not value.isprintable():
        return "holds a control character", "take it out of the name"
    if "\\" in value:
        return "has a backslash", 'write it with forward slashes, such as "data/x"'
    if value.startswith("/"):
        return "is absolute", mend
    if _DRIVE.match(value):
        return "has a drive letter", mend
    if ".." in parts:
        return "leaves the job directory", mend
    if "." in parts or "" in parts:
        return "has a part that is empty or .", 'write it plainly, such as "data/x"'
    if len(value.encode()) > limits.PATH_BYTES or len(parts) > limits.PATH_PARTS:
        return (
            f"is longer than {limits.PATH_BYTES} bytes or {limits.PATH_PARTS} folders",
            "shorten it",
        )
    if any(len(part.encode()) > limits.PATH_PART_BYTES for part in parts):
        return f"has a part longer than {limits.PATH_PART_BYTES} bytes", "shorten it"
    return None


_DRIVE = re.compile(r"[A-Za-z]:")
