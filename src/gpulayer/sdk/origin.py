"""Where a submission comes from: what the plane may know, and the envelope that it may not.

The origin goes to the plane and is stored with the job: folder, interpreter, who, which terminal.
The envelope goes to the supervisor and is never stored with the job: it holds the environment.
"""

from __future__ import annotations

import getpass
import os
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpulayer.sdk import world
from gpulayer.sdk.places import Places

if TYPE_CHECKING:
    from gpulayer.runtime.frames import Connection

TEXT_CHARACTERS = 500


def origin_of(seen: world.World, argv: Sequence[str] = ()) -> dict[str, Any]:
    """The origin of a job that starts from `seen`; no environment values."""
    found: dict[str, Any] = {
        "cwd": seen.envelope["cwd"],
        "interpreter": seen.interpreter.to_json(),
        "host": os.uname().nodename,
        "user": _user(),
        "tty": os.isatty(1),
    }
    if argv:
        found["argv_text"] = shlex.join(argv)[:TEXT_CHARACTERS]
    if seen.visible_gpus is not None:
        found["visible_gpus"] = seen.visible_gpus
    if seen.parent_job is not None:
        found["parent_job"] = seen.parent_job
    return found


class Submitter:
    """Captures the program's world for each submission, and gives each new one to the supervisor.

    The connection stays open: the supervisor keeps an envelope for as long as its owner is there
    or an unfinished job needs it. Thread-safe.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._supervisor: Connection | None = None
        self._known: tuple[Any, dict[str, Any], str] | None = None
        self._pid = os.getpid()

    def origin(self, extra: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The origin of a submission made now, with `extra`, and its envelope's id."""
        with self._lock:
            mark = (os.getcwd(), sys.executable, tuple(os.environb.items()), os.getpid())
            if self._known is None or self._known[0] != mark or not self._is_connected():
                self._known = (mark, *self._register())
            return {**self._known[1], **extra}, self._known[2]

    def close(self) -> None:
        """Let go of the supervisor. Safe to call twice."""
        with self._lock:
            if self._supervisor is not None:
                self._supervisor.close()
                self._supervisor = None

    def _register(self) -> tuple[dict[str, Any], str]:
        if self._supervisor is None or self._pid != os.getpid():
            self._supervisor, self._pid = world.connect_supervisor(self._places), os.getpid()
        seen = world.of_program()
        try:
            fds = {"cwd": seen.folder_fd} if seen.folder_fd >= 0 else None
            reply = self._supervisor.call("envelope", fds=fds, envelope=seen.envelope, keep=True)
        finally:
            seen.close()
        return origin_of(seen), str(reply["envelope_id"])

    def _is_connected(self) -> bool:
        """Whether the supervisor that took the envelope is still there; nothing is expected from
        it, so a readable socket is an ended one."""
        import select

        if self._supervisor is None:
            return False
        if select.select((self._supervisor,), (), (), 0)[0]:
            self._supervisor.close()
            self._supervisor = None
            return False
        return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
