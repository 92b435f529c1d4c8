"""Planes that share a database share one folder too: for artifacts, and for logs inside of it.

A mark in the folder is compared with what the database says: two planes that kept files in two
places would each have jobs whose outputs and logs the other cannot find.
"""

from __future__ import annotations

import contextlib
import os
import secrets

from gpulayer.errors import StorageError
from gpulayer.storage import Reader, Store, Tx

_MARK = ".store"
_KEY = "folder"
_AT = "folder_at"


def shared_logs(store: Store, folder: str, place: str) -> str:
    """The folder of logs. The first plane's `folder` is the one of all; StorageError
    `folder-not-shared` where this one is another. `place` names it for people."""
    mark, is_new = _mark(os.path.join(folder, _MARK))

    def settle(tx: Tx) -> tuple[str, str]:
        if tx.meta(_KEY) is None:
            tx.set_meta(_KEY, mark)
            tx.set_meta(_AT, place)
        return _settled(tx)

    kept, at = store.write(settle, durable=True).result()
    if kept != mark:
        if is_new:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, _MARK))
        raise StorageError(
            "folder-not-shared",
            "The planes of this database keep artifacts and logs in another folder.",
            where=folder,
            why=f"the first of them began with {at}",
            hint="gpulayer serve --help",
        )
    logs = os.path.join(folder, ".logs")
    os.makedirs(logs, 0o700, exist_ok=True)
    return logs


def _settled(reader: Reader) -> tuple[str, str]:
    return reader.meta(_KEY) or "", reader.meta(_AT) or ""


def _mark(path: str) -> tuple[str, bool]:
    """The folder's mark, and whether it was made now."""
    mark = secrets.token_hex(16)
    new = f"{path}-{mark}"
    with open(new, "x", encoding="ascii") as made:
        made.write(mark)
    try:
        os.link(new, path)  # whole, or not at all
    except FileExistsError:
        with open(path, encoding="ascii") as known:
            return known.read(), False
    finally:
        os.unlink(new)
    return mark, True
