"""Envelopes: the world of the terminal that a job shall see, kept until the job begins.

They live in memory. One that is marked to be kept is also a file that only its owner can read,
so that a detached job outlives a restart of the supervisor.
"""

from __future__ import annotations

import json
import os

from gpulayer.runtime.digest import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Envelopes:
    """The envelopes of one supervisor, by the hash of what they say. Every call is twice-safe."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._held: dict[str, dict[str, Any]] = {}

    def put(self, envelope: dict[str, Any], *, keep: bool) -> str:
        """Takes it in and returns its id. OSError where it must be kept and can't be written."""
        text = canonical(envelope)
        envelope_id = sha256_hex(text)
        self._held[envelope_id] = envelope
        if keep:
            self._write(envelope_id, text)
        return envelope_id

    def get(self, envelope_id: str) -> dict[str, Any] | None:
        """None where it is lost."""
        envelope = self._held.get(envelope_id)
        if envelope is None and _is_id(envelope_id):
            envelope = self._read(envelope_id)
        return envelope

    def drop(self, envelope_id: str) -> None:
        self._held.pop(envelope_id, None)
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
