"""What the owner of a machine lets its worker offer to jobs. Told to planes by name alone.

    data.json       data sets: where each is
    secrets.json    secrets: what each comes from (`worker.secrets.book`); no value is in it

Both lie in the folder of the worker: the data folder of this machine's own, and
HOME/joined/NAME of one that joined a server. Only their owner can read them.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import IO

from gpulayer.contracts.requirement_files import ALLOW
from gpulayer.contracts.secret_names import ANY
from gpulayer.sdk.servers import write_private


class Declared:
    """Nothing is read by making one."""

    def __init__(self, folder: str) -> None:
        self._data = os.path.join(folder, "data.json")
        self.secrets = os.path.join(folder, "secrets.json")
        """Path of the list."""

    def data(self) -> dict[str, str]:
        """Data sets that this machine has: where each is."""
        return _texts(self._data)

    def sources(self) -> dict[str, str]:
        """Of secrets, by name, as they were written down."""
        return _texts(self.secrets)

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Those of `environ` that the list of secrets allows."""
        named = {text.removeprefix("env:") for text in self.sources().values()}
        is_any = ANY in named
        return {name: text for name, text in environ.items() if is_any or name in named}

    def keep(
        self, data: Mapping[str, str] | None = None, sources: Mapping[str, str] | None = None
    ) -> None:
        """These, in place of those of before; None: as before. The worker reads data sets when it
        begins, and notices by itself what becomes of secrets."""
        for path, said in ((self._data, data), (self.secrets, sources)):
            if said is not None:
                write_private(path, json.dumps(dict(said), indent=1) + "\n")


def environment_file(environ: Mapping[str, str]) -> IO[bytes]:
    """An open file without a name that holds what jobs may be given of `environ`: what the worker's
    allow-list lets through, and what `env:` in its list of secrets means. Nothing that speaks of
    GPUlayer itself, but for what a builder of environments may do."""
    kept = {
        name: text
        for name, text in environ.items()
        if not name.startswith("GPULAYER_") or name == ALLOW
    }
    file: IO[bytes]
    if hasattr(os, "memfd_create"):
        file = os.fdopen(os.memfd_create("environment"), "w+b")  # on no disk
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115  whoever asks closes it
    file.write(json.dumps(kept).encode("utf-8", "surrogateescape"))
    file.flush()
    return file


def environment_in(descriptor: int) -> dict[str, str]:
    """What such a file holds; nothing where it cannot be read."""
    try:
        return _checked(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    except OSError:
        return {}


def _texts(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            return _checked(file.read())
    except OSError:
        return {}


def _checked(data: bytes) -> dict[str, str]:
    try:
        return {str(name): str(text) for name, text in json.loads(data).items()}
    except (ValueError, AttributeError, RecursionError):
        return {}
