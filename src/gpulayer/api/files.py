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
from gpulayer.api.begun import Begun
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
    begun: Begun

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
            return _from(call.start, file, headers)

        return self._disk.submit(check)

    def missing_artifacts(self, call: Call) -> Any:
        """Those of the digests that are not here, and how much of them came of the asker's own
        uploads that were cut off. Those that are stay for the next hour at least,
        whatever is collected: a job that names them is on its way."""
        digests = fitted("a question", call.body, _MISSING).get("digests") or ()
        if len(digests) > MISSING_DIGESTS:
            raise RefusedError(
                "too-large",
                f"the question has {len(digests)} digests; up to {MISSING_DIGESTS} are allowed",
            )

        def look() -> Any:
            missing = [digest for digest in digests if not self._artifacts.touch(digest)]
            sizes = self.begun.sizes(call.principal)
            begun = {digest: sizes[digest] for digest in missing if digest in sizes}
            return {"missing": missing, **({"begun": begun} if begun else {})}

        return self._disk.submit(look)

    def _uploaded(self, call: Call, keep: Callable[[BinaryIO], Any]) -> Future[Any]:
        path = call.body

        def kept() -> Any:
            try:
                with open(path, "rb") as upload:
                    return keep(upload)
            finally:
                os.unlink(path)

        return self._disk.submit(kept)


def _from(start: int, file: BinaryIO, headers: dict[str, str]) -> Raw:
    """The file from a byte on (RFC 9110, 14.2)."""
    size = os.fstat(file.fileno()).st_size
    if start == 0:
        return Raw(headers={**headers, "Accept-Ranges": "bytes"}, file=file)
    if start >= size:
        file.close()
        return Raw(headers={"Content-Range": f"bytes */{size}"}, status=416)
    file.seek(start)
    headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
    return Raw(headers=headers, file=file, status=206)
