"""Connections to the one SQLite file, and what its errors mean.

SQLite before 3.51.3 (and 3.44.6, 3.50.7) can corrupt a WAL database when two connections write or
checkpoint (sqlite.org/wal.html, "WAL-reset bug"). So exactly one connection of one process writes
and checkpoints; readers are opened read-only. That no second process opens the file is the plane's
lock, not this module's. After a kill -9 the `-wal` file belongs to the database: it is never
deleted, and never copied without the other.
"""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

from gpulayer.errors import GPULayerError, StorageError, UsageError
from gpulayer.storage.migrations import foreign, newer, schema_files, split

MEMORY = ":memory:"
STATEMENTS_CACHED = 256
APPLICATION_ID = 0x47504C59  # "GPLY": file(1) and we can tell the file from another program's
SAFE_VERSIONS = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""The first of each line without the WAL-reset bug; `doctor` names an older one."""


def open_writer(path: str) -> sqlite3.Connection:
    """The connection that writes and checkpoints. Makes the file (0600), never its folder."""
    if path == MEMORY:
        connection = _connect(MEMORY)
    else:
        _make_file(path)
        connection = _connect(f"file:{quote(os.fsencode(path))}?mode=rw")
    try:
        with storage_errors(path):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA journal_size_limit = 67108864")
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: str) -> sqlite3.Connection:
    """A connection that can only read. Used by one thread at a time."""
    with storage_errors(path):
        return _connect(f"file:{quote(os.fsencode(path))}?mode=ro")


def migrate(
    connection: sqlite3.Connection, path: str, scripts: Sequence[str] | None = None
) -> None:
    """Bring the file up to the newest schema, all of it in one transaction. Twice-safe.

    `PRAGMA user_version` holds the number of the newest script. Raises StorageError
    `newer-database` or `corrupt`, and then has written nothing.
    """
    scripts = schema_files() if scripts is None else scripts
    with storage_errors(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection, path, len(scripts))
            for script in scripts[version:]:
                for statement in split(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(scripts)}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection, path: str, newest: int) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != APPLICATION_ID and (tables or version or owner):
        raise foreign(path, "it does not carry GPUlayer's mark")
    if version > newest:
        raise newer(path, version, newest)
    return int(version)


def lost_sync(error: BaseException) -> bool:
    """The disk refused to confirm what it had taken. What it holds is unknown until a reopen:
    the kernel may drop the pages, and a second sync then claims success (fsync(2))."""
    return isinstance(error, sqlite3.Error) and _code(error) in _SYNC_CODES


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Turn what SQLite says about the file into our errors."""
    try:
        yield
    except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
        raise as_ours(error, path) from error


def as_ours(error: BaseException, path: str) -> BaseException:
    """Our error for one of SQLite's; any other is given back as it is."""
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return UsageError("usage", f"a value that no store can hold: {error}")
    if not isinstance(error, sqlite3.Error):
        return error
    slug = _SLUGS.get(_code(error) & 0xFF, "internal")
    if _code(error) == sqlite3.SQLITE_IOERR_SHMSIZE:
        slug = "disk-full"
    folder = os.path.dirname(path)
    if slug == "internal":
        return GPULayerError(slug, f"The store refused a statement: {error}.", where=path)
    hint = {
        "disk-full": "gpulayer gc --dry-run",
        "corrupt": f"mv {shlex.quote(folder)} {shlex.quote(folder + '.damaged')}",
    }.get(slug, "gpulayer doctor")
    return StorageError(slug, _SENTENCES[slug], where=path, why=str(error), hint=hint)


def _make_file(path: str) -> None:
    try:
        # A link would take the data somewhere else: whoever made it could read and change it.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _unsafe(path, "it is a symbolic link") from error
        slug = "disk-full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "read-only"
        why = error.strerror or ""
        raise StorageError(slug, _SENTENCES[slug], where=path, why=why) from error
    owner = os.fstat(fd).st_uid
    os.close(fd)
    if owner != os.getuid():
        raise _unsafe(path, f"it belongs to user {owner}, and you are {os.getuid()}")


def _unsafe(path: str, why: str) -> StorageError:
    return StorageError("folder-unsafe", "The database cannot be trusted.", where=path, why=why)


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri,
        uri=uri != MEMORY,
        timeout=5.0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_CACHED,
    )


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)


_SYNC_CODES = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)
_SLUGS = {
    sqlite3.SQLITE_FULL: "disk-full",
    sqlite3.SQLITE_READONLY: "read-only",
    sqlite3.SQLITE_CANTOPEN: "read-only",
    sqlite3.SQLITE_PERM: "read-only",
    sqlite3.SQLITE_IOERR: "disk-error",
    sqlite3.SQLITE_CORRUPT: "corrupt",
    sqlite3.SQLITE_NOTADB: "corrupt",
}
_SENTENCES = {
    "disk-full": "The disk is full, so nothing was accepted.",
    "read-only": "The database cannot be written.",
    "disk-error": "The disk refused to read or write the database, so nothing was accepted.",
    "corrupt": "The database is damaged; nothing of it was used.",
}
