"""The routes of artifacts and bundles: translation alone, as in `handlers`.

A body comes as a file, which is moved or removed here. What is served was compared with its name
first, and goes out as an attachment that no browser interprets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

from gpulayer.api.answers import Call, Raw
from gpulayer.artifacts import mending, packs
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.contracts.fitting import fitted
from gpulayer.errors import RefusedError

_MISSING = {"digests": "tuple[str, ...]"}
MISSING_DIGESTS = 20_000
"""Most digests of one question."""


class Files:
    """Part of `handlers.Handlers`, whose docstrings hold for it too."""

    _artifacts: LocalArtifacts
    _disk: ThreadPoolExecutor

    def put_artifact(self, call: Call) -> Any:
        digest = call.path["digest"]

        def keep(upload: BinaryIO) -> Any:
            pieces = iter(lambda: upload.read(mending.PIECE), b"")
            return {"digest": digest, "size": self._artifacts.put_stream(pieces, digest)[1]}

        return self._uploaded(call, keep)

    def put_artifacts(self, call: Call) -> Any:
        def keep(upload: BinaryIO) -> Any:
            return {"stored": packs.unpack(upload, self._artifacts)}

        return self._uploaded(call, keep)

    def mend_bundle(self, call: Call) -> Any:
        digest, base = call.path["digest"], call.path["base"]

        def keep(upload: BinaryIO) -> Any:
            with self._artifacts.open(base) as old:
                pieces = mending.mended(old, upload)
                return {"digest": digest, "size": self._artifacts.put_stream(pieces, digest)[1]}

        return self._uploaded(call, keep)

    def get_artifact(self, call: Call) -> Any:
        digest = call.path["digest"]

        def check() -> Raw:
            # Read whole here: what is damaged is not served. Open from here on: what is collected
            # meanwhile is served to its end.
            file = self._artifacts.open(digest)
            name = f'attachment; filename="{digest[:12]}"'
            headers = {"Content-Disposition": name, "X-Content-Type-Options": "nosniff"}
            return Raw(headers=headers, file=file)

        return self._disk.submit(check)

    def missing_artifacts(self, call: Call) -> Any:
        """Those of the digests that are not here. Those that are stay for the next hour at least,
        whatever is collected: a job that names them is on its way."""
        digests = fitted("a question", call.body, _MISSING).get("digests") or ()
        if len(digests) > MISSING_DIGESTS:
            raise RefusedError(
                "too-large",
                f"the question has {len(digests)} digests; up to {MISSING_DIGESTS} are allowed",
            )
        known = self._artifacts
        return self._disk.submit(
            lambda: {"missing": [digest for digest in digests if not known.touch(digest)]}
        )

    def _uploaded(self, call: Call, keep: Callable[[BinaryIO], Any]) -> Future[Any]:
        path = call.body

        def kept() -> Any:
            try:
                with open(path, "rb") as upload:
                    return keep(upload)
            finally:
                os.unlink(path)

        return self._disk.submit(kept)
