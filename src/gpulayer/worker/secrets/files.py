"""The text of a file that its owner alone can read."""

from __future__ import annotations

import os
import shlex
import stat

from gpulayer.worker.secrets.sources import Unusable

VALUE_BYTES = 64 * 1024


def private_text(path: str, said: str) -> str:
    """Less one line break at its end. What is checked is what is read. `said` is what people are
    told instead of the path. Raises `Unusable`."""
    data = private_bytes(path, said)
    text = text_of(data)
    if text is None:
        raise Unusable(
            "secret-missing",
            f"has no value: {said} cannot be used",
            f"it must hold 1 to {VALUE_BYTES} bytes of text",
        )
    return text


def private_bytes(path: str, said: str) -> bytes:
    """At most one more than `VALUE_BYTES`. A link counts where it is ours: whoever else made it
    could choose which of our files a job is given."""
    unread = f"has no value: {said} cannot be read"
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode) and not _is_trusted(found):
            raise Unusable("secret-unsafe", f"is not private: {said} is a link of somebody else's")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Unusable("secret-missing", unread, why or "") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Unusable("secret-missing", unread, "it is not a regular file")
        if found.st_mode & 0o077 or not _is_trusted(found):
            hint = f"chmod 600 {shlex.quote(path)}" if said == path else ()
            what = f"is not private: {said} can be read by others"
            raise Unusable("secret-unsafe", what, hint=hint)
        return os.read(descriptor, VALUE_BYTES + 1)
    finally:
        os.close(descriptor)


def text_of(data: bytes) -> str | None:
    """The value in what was read; None where that is none."""
    text = os.fsdecode(data[:-1] if data.endswith(b"\n") else data)
    return None if not text or "\0" in text or len(data) > VALUE_BYTES else text


def _is_trusted(found: os.stat_result) -> bool:
    return found.st_uid in (os.geteuid(), 0)
