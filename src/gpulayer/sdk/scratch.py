"""The home of a plane in memory: a folder of its own, gone when the plane is.

Sockets, logs and task folders need a place even where the database needs none. Each is locked by
its owner, so that what a killed program left is told apart and removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from gpulayer.sdk.places import SHARED_FOLDERS, SOCKET_PATH_LIMIT, Places
from gpulayer.sdk.seat import Seat, is_held

PREFIX = "gpulayer-memory-"


def make() -> tuple[Places, Seat]:
    """A new home and its lock. Raises OSError where no temporary folder can be written."""
    base = _base()
    remove_abandoned(base)
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=base)
        places = Places(folder, os.path.join(folder, "run"))
        places.create()
        seat = Seat.take(places)
        if seat is not None:  # else it was taken for an abandoned one just now
            return places, seat


def remove(places: Places) -> None:
    """Safe to repeat."""
    shutil.rmtree(places.home, ignore_errors=True)


def remove_abandoned(base: str) -> None:
    """Remove the homes below `base` of this user's programs that are dead, once their supervisors
    have ended their jobs."""
    for entry in os.scandir(base):
        if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        places = Places(entry.path, os.path.join(entry.path, "run"))
        try:
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            if is_held(os.path.join(places.supervisor_dir, "lock")):
                continue
            if not os.path.exists(places.plane_lock):
                continue  # its owner is just making it
            seat = Seat.take(places)
        except OSError:
            continue  # somebody else was first
        if seat is not None:
            remove(places)
            seat.close()


def _base() -> str:
    base = tempfile.gettempdir()
    longest = os.path.join(base, PREFIX + "12345678", "run", "p.sock.4194304")
    return base if len(os.fsencode(longest)) <= SOCKET_PATH_LIMIT else SHARED_FOLDERS[0]
