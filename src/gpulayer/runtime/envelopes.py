"""Envelopes: the world of the terminal that a job shall see, kept until the job begins.

They live in memory. One that is marked to be kept is also a file that only its owner can read,
so that a detached job outlives a restart of the supervisor.

The plane says when no job needs one any more. It cannot know who is about to submit another: so an
envelope also stays while a connection that gave it is open, and for a moment after each `put`,
which a client repeats before it submits.
"""

from __future__ import annotations

import json
import os
import time

from gpulayer.runtime.digest import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


MOMENT_SECONDS = 10.0
"""From a `put` to the submission that needs it."""


class Envelopes:
    """The envelopes of one supervisor, by the hash of what they say. Every call is twice-safe."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._held: dict[str, dict[str, Any]] = {}
        self._put_at: dict[str, float] = {}
        self._givers: dict[str, set[object]] = {}
        self._unneeded: set[str] = set()
        """What the plane let go of while a giver was there."""

    def put(self, envelope: dict[str, Any], *, keep: bool, giver: object = None) -> str:
        """Takes it in and returns its id. OSError where it must be kept and can't be written."""
        text = canonical(envelope)
        envelope_id = sha256_hex(text)
        if keep:
            self._write(envelope_id, text)
        self._held[envelope_id] = envelope
        self._touch(envelope_id, giver)
        return envelope_id

    def put_again(self, envelope_id: str, giver: object) -> bool:
        """The same by its id alone; False where it is not here."""
        if self.get(envelope_id) is None:
            return False
        self._touch(envelope_id, giver)
        return True

    def giver_left(self, giver: object) -> None:
        """Its connection is closed."""
        for envelope_id in [e for e, givers in self._givers.items() if giver in givers]:
            self._givers[envelope_id].discard(giver)
            if not self._givers[envelope_id]:
                del self._givers[envelope_id]
                if envelope_id in self._unneeded:
                    self._remove(envelope_id)

    def get(self, envelope_id: str) -> dict[str, Any] | None:
        """None where it is lost."""
        envelope = self._held.get(envelope_id)
        if envelope is None and _is_id(envelope_id):
            envelope = self._read(envelope_id)
        return envelope

    def drop(self, envelope_id: str) -> None:
        """No job needs it, as the plane sees it."""
        if self._clock() < self._put_at.get(envelope_id, float("-inf")) + MOMENT_SECONDS:
            return  # the plane hears of the job that comes, and says so again after it
        if envelope_id in self._givers:
            self._unneeded.add(envelope_id)
        else:
            self._remove(envelope_id)

    def keep_only(self, needed: Iterable[str]) -> None:
        """Drop all others, files of earlier supervisors included: a plane that begins anew knows
        what unfinished jobs need, and nobody else would ever drop the rest."""
        for envelope_id in {*self._held, *self._old_files()}.difference(needed):
            self.drop(envelope_id)

    def _old_files(self) -> list[str]:
        """Of envelopes; one of the last moment may belong to a job that is on its way."""
        found = []
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                    if _is_id(entry.name) and age >= MOMENT_SECONDS:
                        found.append(entry.name)
        except OSError:
            pass
        return found

    def _touch(self, envelope_id: str, giver: object) -> None:
        self._put_at[envelope_id] = self._clock()
        self._unneeded.discard(envelope_id)
        if giver is not None:
            self._givers.setdefault(envelope_id, set()).add(giver)

    def _remove(self, envelope_id: str) -> None:
        self._held.pop(envelope_id, None)
        self._put_at.pop(envelope_id, None)
        self._unneeded.discard(envelope_id)
        if _is_id(envelope_id):
            try:
                os.unlink(os.path.join(self._folder, envelope_id))
            except OSError:
                pass

    def _write(self, envelope_id: str, text: bytes) -> None:
        path = os.path.join(self._folder, envelope_id)
        if os.path.exists(path):
            return
        draft = f"{path}.{os.getpid()}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(text)
            os.rename(draft, path)
        except BaseException:
            os.unlink(draft)
            raise

    def _read(self, envelope_id: str) -> dict[str, Any] | None:
        try:
            with open(os.path.join(self._folder, envelope_id), "rb") as file:
                text = file.read()
        except OSError:
            return None
        if sha256_hex(text) != envelope_id:
            return None
        envelope: dict[str, Any] = json.loads(text)
        self._held[envelope_id] = envelope
        return envelope


def with_folder(envelope: Any, fds: dict[str, int]) -> dict[str, Any]:
    """The folder is kept as path, device and inode, never open: a job that waits must not keep a
    file system busy. ValueError for what is no envelope."""
    if not isinstance(envelope, dict) or not isinstance(envelope.get("environ"), list):
        raise ValueError("an envelope is an object with an environ")
    if "cwd" in fds and not envelope.get("cwd_ino"):
        found = os.fstat(fds["cwd"])
        return {**envelope, "cwd_dev": found.st_dev, "cwd_ino": found.st_ino}
    return envelope


def canonical(envelope: dict[str, Any]) -> bytes:
    """The bytes whose SHA-256 is the envelope's id."""
    text = json.dumps(envelope, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")


def environment(
    entries: list[str],
    *,
    unset: list[str],
    setting: dict[str, str],
    defaults: dict[str, str],
) -> list[bytes]:
    """The environment block of a job: its terminal's entries in their order, byte for byte, less
    `unset`, with `setting` in their place, and `defaults` only where nobody named them."""
    replaced = {os.fsencode(name) for name in (*unset, *setting)}
    block = [raw for raw in map(os.fsencode, entries) if _name(raw) not in replaced]
    block += [os.fsencode(f"{name}={value}") for name, value in setting.items()]
    named = {_name(raw) for raw in block}
    block += [
        os.fsencode(f"{name}={value}")
        for name, value in defaults.items()
        if os.fsencode(name) not in named
    ]
    return block


def _name(entry: bytes) -> bytes:
    return entry.partition(b"=")[0]


def _is_id(text: str) -> bool:
    return len(text) == 64 and all(c in "0123456789abcdef" for c in text)
