"""What the system says of a disk, in our words."""

from __future__ import annotations

import errno

from gpulayer.errors import StorageError


def disk_error(error: OSError, where: str) -> StorageError:
    """`disk-full`, `read-only` or `disk-error` for what the system answered about `where`."""
    slug, message = "disk-error", "The disk refused to read or write."
    hint = "gpulayer doctor"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        slug, message = "disk-full", "The disk is full, so nothing was accepted."
        hint = "gpulayer gc --dry-run"
    elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        slug, message = "read-only", "The folder cannot be written."
        hint = "export GPULAYER_HOME=$HOME/.gpulayer"
    why = error.strerror or str(error)
    return StorageError(slug, message, where=str(error.filename or where), why=why, hint=hint)
