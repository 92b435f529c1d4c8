"""Numbered schema files, each applied once, and what is said of a database that does not fit.

An engine keeps the number of the newest one in the database, so a database of a newer GPUlayer is
known before anything of it is touched. A schema file is never changed once it was released.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from gpulayer.errors import StorageError


def schema_files() -> list[str]:
    """The text of `schema/0001.sql`, `schema/0002.sql`, ... in order."""
    folder = files("gpulayer.storage") / "schema"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text("utf-8") for name in names]


def split(script: str) -> Iterator[str]:
    """Its statements. (`executescript` commits the open transaction first.)"""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def newer(where: str, version: int, newest: int) -> StorageError:
    return StorageError(
        "newer-database",
        f"The data folder was written by a newer GPUlayer (schema {version}; "
        f"this one knows {newest}).",
        where=where,
        hint=("pip install --upgrade gpulayer", 'export GPULAYER_HOME="$HOME/.gpulayer-older"'),
    )


def foreign(where: str, why: str) -> StorageError:
    return StorageError(
        "corrupt", "The file is a database of another program.", where=where, why=why
    )
