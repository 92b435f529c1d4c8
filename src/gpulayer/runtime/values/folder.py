"""The large parts of values as files of one folder."""

from __future__ import annotations

import os
import shutil

from .limits import MAX_FILES
from .reading import Source
from .writing import Sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

FOLDER = ".values"
"""Its name among the inputs and among the outputs of a job."""


class FolderSource(Source):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def open(self, name: str) -> BinaryIO:
        return open(os.path.join(self._folder, name), "rb")


class FolderSink(Sink):
    """Made with its first file. `prefix` begins the name of each."""

    def __init__(self, folder: str, prefix: str = "") -> None:
        self.folder = folder
        self.names: list[str] = []
        self._prefix = prefix
        self._stored: dict[int, tuple[object, str]] = {}

    def store(self, ending: str, write: Callable[[BinaryIO], object], key: object = None) -> str:
        if id(key) in self._stored:
            return self._stored[id(key)][1]
        if key is not None and len(self.names) >= MAX_FILES:
            return ""
        name = self.take_name(ending)
        with self._open(name, "wb") as file:
            write(file)
        if key is not None:
            self._stored[id(key)] = key, name
        return name

    def pack(self, write: Callable[[BinaryIO], object]) -> dict[str, Any]:
        name = self._prefix + "pack.bin"
        if name not in self.names:
            self.names.append(name)
        with self._open(name, "ab") as file:
            at = file.seek(0, os.SEEK_END)
            write(file)
            return {"file": name, "at": at, "size": file.tell() - at}

    def take_name(self, ending: str) -> str:
        name = "{}{}.{}".format(self._prefix, len(self.names), ending)
        self.names.append(name)
        return name

    def kept(self) -> list[tuple[object, str]]:
        """What may be named again, and the name of its file."""
        return list(self._stored.values())

    def discard(self) -> None:
        """Remove what was stored."""
        if self.names:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _open(self, name: str, mode: str) -> Any:
        os.makedirs(self.folder, exist_ok=True)
        return open(os.path.join(self.folder, name), mode)
