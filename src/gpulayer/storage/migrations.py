"""Numbered schema files, each applied once, all of what is missing in one transaction.

`PRAGMA user_version` holds the number of the newest one, so a file of a newer GPUlayer is known
before anything of it is touched. A schema file is never changed once it was released.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from importlib.resources import files

from gpulayer.errors import StorageError
from gpulayer.storage.sqlite import storage_errors

APPLICATION_ID = 0x47504C59  # "GPLY": file(1) and we can tell the file from another program's


def schema_files() -> list[str]:
    """The text of `schema/0001.sql`, `schema/0002.sql`, ... in order."""
    folder = files("gpulayer.storage") / "schema"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text("utf-8") for name in names]


def migrate(
    connection: sqlite3.Connection, path: str, scripts: Sequence[str] | None = None
) -> None:
    """Bring the database up to the newest schema. All or nothing; twice-safe.

    Raises StorageError `newer-database` or `corrupt`, and then has written nothing.
    """
    scripts = schema_files() if scripts is None else scripts
    with storage_errors(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection, path, len(scripts))
            for script in scripts[version:]:
                for statement in _statements(script):
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
        raise StorageError(
            "corrupt",
            "The file is a database of another program.",
            where=path,
            why="it does not carry GPUlayer's mark",
        )
    if version > newest:
        raise StorageError(
            "newer-database",
            f"The data folder was written by a newer GPUlayer (schema {version}; "
            f"this one knows {newest}).",
            where=path,
            hint=("pip install --upgrade gpulayer", 'export GPULAYER_HOME="$HOME/.gpulayer-older"'),
        )
    return int(version)


def _statements(script: str) -> Iterator[str]:
    # Not executescript: it commits the open transaction first.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
