"""Checkpoint files: whole or refused, and never half of one.

A file is what `torch.save` writes, so `torch.load` opens it. Its digest, and which save of its run
it is, stand in the comment at the end of the archive: a file that was cut has no end, and one that
was changed has another digest. Only plain values and tensors are read; no code is ever run.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from gpulayer.torch.errors import CheckpointError

END = b"PK\x05\x06"
NOTE = "gpulayer-checkpoint sha256={digest} serial={serial:012d} step={step:012d}"
NOTE_PATTERN = re.compile(
    rb"gpulayer-checkpoint sha256=([0-9a-f]{64}) serial=(\d{12}) step=(\d{12})\Z"
)
LENGTH = len(NOTE.format(digest="0" * 64, serial=0, step=0))
SUFFIX = ".ckpt"
SIMPLE = (
    torch.Tensor,
    str,
    bytes,
    int,
    float,
    bool,
    type(None),
    torch.dtype,
    torch.device,
    torch.Size,
)


def write(state: dict[str, Any], path: Path, serial: int, step: int) -> None:
    """Put a state at a path: the old file or the new one is there at any instant."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, new)
        with open(new, "r+b") as file:
            file.seek(-22, os.SEEK_END)
            if file.read(4) != END:
                raise CheckpointError(f"{path} was not written as an archive")
            file.seek(-2, os.SEEK_END)
            file.write(LENGTH.to_bytes(2, "little"))
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0, os.SEEK_END)
            file.write(NOTE.format(digest=digest, serial=serial, step=step).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:
        new.unlink(missing_ok=True)
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{path} cannot be written",
            str(error).splitlines()[0],
            "free some space, or ModelCheckpoint(dirpath=...) with a folder that can be written",
        ) from error


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no checkpoint can be kept, before anything is trained."""
    probe = folder / f".probe.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CheckpointError(
            f"no checkpoint can be kept in {folder}",
            str(error),
            "ModelCheckpoint(dirpath=...) with a folder that can be written, "
            "or Trainer(enable_checkpointing=False)",
        ) from error


def note_of(path: Path) -> tuple[str, int, int] | None:
    """Digest, serial number and step of a file of ours; None of another or a cut one."""
    try:
        with open(path, "rb") as file:
            file.seek(-LENGTH, os.SEEK_END)
            found = NOTE_PATTERN.fullmatch(file.read())
    except OSError:
        return None
    return (found[1].decode(), int(found[2]), int(found[3])) if found else None


def load(path: str | os.PathLike[str], device: Any = None, ours: bool = False) -> dict[str, Any]:
    """What a file holds, on the CPU or a device. With `ours`, only one with a digest."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    note = note_of(path)
    if note is None and ours:
        raise CheckpointError(
            f"{path} is cut, or is no checkpoint of this Trainer",
            f"its end is missing ({path.stat().st_size} bytes are there)",
            "name another file, or ckpt_path='last' for the newest whole one of the folder",
        )
    if note is not None and _digest(path) != note[0]:
        raise CheckpointError(
            f"{path} is damaged",
            "its digest is not the one that it was written with",
            "name another file, or ckpt_path='last' for the newest whole one of the folder",
        )
    try:
        state: dict[str, Any] = torch.load(path, map_location=device or "cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError) as error:
        raise CheckpointError(
            f"{path} cannot be read",
            str(error).splitlines()[0],
            "name a whole file that holds plain values and tensors alone",
        ) from error
    return state


def newest(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest whole checkpoint of a folder; what is damaged is told and passed over."""
    known = [(note[1], path) for path in folder.glob("*" + SUFFIX) if (note := note_of(path))]
    cut = [path for path in folder.glob("*" + SUFFIX) if note_of(path) is None]
    for path in cut:
        warn(f"{path} is cut or no checkpoint of this Trainer: passed over")
    for _, path in sorted(known, key=lambda found: (found[0], found[1].name), reverse=True):
        note = note_of(path)
        if note is not None and _digest(path) == note[0]:
            return path
        warn(f"{path} is damaged (its digest is another): the one before it is taken")
    return None


def steps_of(path: Path) -> int:
    """At which step a file of ours was taken; -1 of another."""
    note = note_of(path)
    return note[2] if note else -1


def next_serial(folder: Path) -> int:
    """One more than the newest of the folder, whichever run wrote it."""
    notes = [note_of(path) for path in folder.glob("*" + SUFFIX)]
    return 1 + max((note[1] for note in notes if note), default=0)


def plain(value: Any, where: str = "checkpoint") -> None:
    """Refuse what could only be read back by running code; say where it stands."""
    if isinstance(value, SIMPLE):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            plain(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            plain(item, f"{where}[{at}]")
    else:
        raise CheckpointError(
            f"{where} is a {type(value).__qualname__}, which no checkpoint can hold",
            "a checkpoint holds numbers, texts, lists, dicts and tensors",
            "make it one of those in state_dict(), or save_hyperparameters(ignore=[...])",
        )


def copied(value: Any, memo: dict[Any, Any] | None = None) -> Any:
    """The same on the CPU, sharing nothing with what is trained on; tied tensors stay tied."""
    memo = {} if memo is None else memo
    if isinstance(value, torch.Tensor):
        key = (value.device, value.data_ptr(), value.dtype, tuple(value.shape), value.stride())
        if key not in memo:
            memo[key] = value.detach().to("cpu", copy=True)
        return memo[key]
    if isinstance(value, Mapping):
        return {key: copied(item, memo) for key, item in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(copied(item, memo) for item in value)
    return value


class Writer:
    """Writes checkpoints, at once or beside the training; one at a time, in their order."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: CheckpointError | None = None

    def write(
        self, state: dict[str, Any], path: Path, serial: int, step: int, *, beside: bool,
        then: Callable[[], None],
    ) -> None:  # fmt: skip
        """Write, then do what must not happen before the file is whole."""
        self.wait()

        def work() -> None:
            write(state, path, serial, step)
            then()

        def guarded() -> None:
            try:
                work()
            except CheckpointError as error:
                self._error = error
            except OSError as error:
                self._error = CheckpointError(f"{path} cannot be kept", str(error))

        if beside:
            state = copied(state)
            self._thread = threading.Thread(target=guarded, name="checkpoint")
            self._thread.start()
        else:
            work()

    def wait(self) -> None:
        """Until what was begun is written; its error is raised here."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error


def link(path: Path, name: Path) -> None:
    """Let a second name stand for a file, replacing what it stood for."""
    new = name.with_name(f".{name.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    try:
        os.link(path, new)
    except OSError:  # a file system without links
        new.write_bytes(path.read_bytes())
    os.replace(new, name)


def _digest(path: Path) -> str:
    hashed = hashlib.sha256()
    left = path.stat().st_size - LENGTH
    with open(path, "rb") as file:
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            hashed.update(part)
            left -= len(part)
    return hashed.hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
