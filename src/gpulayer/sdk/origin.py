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

from gpulayer.clock import SystemClock
from gpulayer.contracts.data_sets import PREFIX
from gpulayer.sdk import world
from gpulayer.sdk.folder import working_folder
from gpulayer.sdk.places import Places
from gpulayer.sdk.repository import commit_of

if TYPE_CHECKING:
    from gpulayer.runtime.frames import Connection

TEXT_CHARACTERS = 500
COMMIT_SECONDS = 5.0
"""How old the commit may be that a program's jobs tell: asking git costs as much as ten jobs."""
SURE_SECONDS = 4.0
"""How long the supervisor needs no reminder of an envelope; it keeps each for ten (runtime)."""


def origin_of(seen: world.World, argv: Sequence[str] = ()) -> dict[str, Any]:
    """The origin of a job that starts from `seen`; no environment values."""
    found: dict[str, Any] = {
        "cwd": seen.envelope["cwd"],
        "interpreter": seen.interpreter.to_json(),
        "host": os.uname().nodename,
        "user": user_name(),
        "tty": os.isatty(1),
    }
    if code := commit_of(str(found["cwd"])):
        found["code"] = code
    if argv:
        found["argv_text"] = shlex.join(argv)[:TEXT_CHARACTERS]
    if seen.visible_gpus is not None:
        found["visible_gpus"] = seen.visible_gpus
    if data := _data_of(seen.environ):
        found["data"] = data
    if seen.parent_job is not None:
        found["parent_job"] = seen.parent_job
    return found


def _data_of(environ: Mapping[str, str]) -> list[str]:
    """The variables of this terminal that name a data set which is there."""
    named = ((name, path) for name, path in environ.items() if name.startswith(PREFIX))
    return sorted(name for name, path in named if os.path.isabs(path) and os.path.exists(path))


def origin_again(
    seen: world.World, old: Mapping[str, Any], *, exact: bool = False
) -> dict[str, Any]:
    """The origin of another try: what `seen` has now, in the folder of the old one, which `seen`
    then names too. Without a watcher, since the terminal of the old one has gone. `exact`: with
    the Python of the old one."""
    folder = str(old.get("cwd") or seen.envelope["cwd"])
    try:
        found = os.stat(folder)
        device, inode = found.st_dev, found.st_ino
    except OSError:
        device, inode = 0, 0  # the start itself says what is wrong with it
    seen.envelope.update(cwd=folder, cwd_dev=device, cwd_ino=inode)
    seen.close()
    names = ["function", "script", "argv_text", *(["interpreter"] if exact else [])]
    kept = {key: old[key] for key in names if key in old}
    return {**origin_of(seen), **kept}


class Submitter:
    """Captures the program's world for each submission, and gives each new one to the supervisor.

    The connection stays open: the supervisor keeps an envelope for as long as its giver is there
    or an unfinished job needs it. Thread-safe.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._supervisor: Connection | None = None
        self._known: tuple[Any, dict[str, Any], str] | None = None
        self._code: tuple[float, dict[str, Any]] = (float("-inf"), {})
        """When the commit was last looked at, and what was found."""
        self._clock = SystemClock()
        self._given = float("-inf")
        """When the supervisor was last told of the envelope."""
        self._last: world.World | None = None
        self._envelope_id = ""
        """Of `_last`."""

    def origin(self, extra: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The origin of a submission made now, with `extra`, and its envelope's id."""
        with self._lock:
            mark = (working_folder(), sys.executable, tuple(os.environb.items()))
            if self._known is None or self._known[0] != mark or not self._is_kept(self._known[2]):
                self._known = (mark, *self._register())
            return {**self._known[1], **self._commit(), **extra}, self._known[2]

    def again(
        self, origin: Mapping[str, Any], *, exact: bool = False
    ) -> tuple[dict[str, Any], str]:
        """The origin and envelope of another try of a job, in that job's folder."""
        with self._lock:
            seen = world.of_program()
            made = origin_again(seen, origin, exact=exact)
            return made, self._give(seen)

    def confirm(self) -> None:
        """Those jobs are accepted: see that a supervisor has their envelope still."""
        with self._lock:
            if self._last is not None and not self._is_kept(self._envelope_id):
                self._give(self._last)

    def forget(self) -> None:
        """In a forked child: the connection is the parent's."""
        self._lock = threading.Lock()
        self.close()
        self._known = None

    def close(self) -> None:
        """Let go of the supervisor. Safe to call twice."""
        with self._lock:
            if self._supervisor is not None:
                self._supervisor.close()
                self._supervisor = None

    def _commit(self) -> dict[str, Any]:
        now = self._clock.monotonic()
        if now >= self._code[0] + COMMIT_SECONDS:
            code = commit_of(working_folder())
            self._code = self._clock.monotonic(), {"code": code} if code else {}
        return self._code[1]

    def _register(self) -> tuple[dict[str, Any], str]:
        seen = world.of_program()
        try:
            envelope = self._give(seen)
        finally:
            seen.close()
        made = origin_of(seen)
        self._code = self._clock.monotonic(), {"code": made.pop("code")} if "code" in made else {}
        return made, envelope

    def _give(self, seen: world.World) -> str:
        supervisor, self._envelope_id = world.give_envelope(self._places, seen)
        if self._supervisor is not None:
            self._supervisor.close()
        self._supervisor, self._last = supervisor, seen
        self._given = self._clock.monotonic()
        return self._envelope_id

    def _is_kept(self, envelope_id: str) -> bool:
        """Whether the supervisor will have it for the job that comes."""
        if not self._is_connected() or self._supervisor is None:
            return False
        now = self._clock.monotonic()
        if now < self._given + SURE_SECONDS:
            return True
        if not world.has_envelope(self._supervisor, envelope_id):
            return False
        self._given = now
        return True

    def _is_connected(self) -> bool:
        """Whether the supervisor that took the envelope is still there."""
        if self._supervisor is not None and world.has_ended(self._supervisor):
            self._supervisor.close()
            self._supervisor = None
        return self._supervisor is not None


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
