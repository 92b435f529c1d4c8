"""Which SQLite this is, and whether it has the WAL-reset bug.

Two connections that write one WAL database may then lose commits (sqlite.org/wal.html,
"walresetbug"). The store has one writer, so it is a fact to report and not a fault.
"""

from __future__ import annotations

import sqlite3

VERSION = sqlite3.sqlite_version_info


def has_wal_bug(version: tuple[int, ...] = VERSION) -> bool:
    """Mended in 3.51.3, and in 3.50.7 and 3.44.6."""
    return (
        (3, 7, 0) <= version < (3, 51, 3)
        and not (3, 50, 7) <= version < (3, 51)
        and not (3, 44, 6) <= version < (3, 45)
    )
