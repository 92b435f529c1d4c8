"""The routes of artifacts and bundles: translation alone, as in `handlers`.

A body comes as a file, which is moved or removed here. What is served was compared with its name
first, and goes out as an attachment that no browser interprets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

from gpulayer.api.answers import Call, Raw
from gpulayer.api.begun import Begun, owner_of
from gpulayer.artifacts import mending, packs
from gpulayer.artifacts.port import ArtifactStore
from gpulayer.contracts.fitting import fitted
from gpulayer.errors import RefusedError

_MISSING = {"digests": "tuple[str, ...]"}
_OFFER = {"size": "int"}
_ARRIVED = {"name": "str"}
MISSING_DIGESTS = 20_000
"""Most digests of one question."""


class Files:
    """Part of `handlers.Handlers`, whose docstrings hold for it too."""

    _artifacts: ArtifactStore
    _disk: ThreadPoolExecutor
    begun: Begun

    def put_artifact(self, call: Call) -> Any:
        digest, upload = call.path["digest"], call.body

        def kept() -> Any:
            size = self._artifacts.take(upload.path, digest, upload.digest)
            return {"digest": digest, "size": size}

        return self._disk.submit(kept)

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

    def link_artifact(self, call: Call) -> Any:
        """For who takes it from where it lies, and compares it with its name. None: from us."""
        digest = call.path["digest"]
        return self._disk.submit(lambda: {"url": self._artifacts.link(digest)})

    def offer_artifact(self, call: Call) -> Any:
        """The same for an upload: it is no artifact before `arrived_artifact`."""
        size = fitted("an upload", call.body, _OFFER).get("size") or 0
        whose = owner_of(call.principal)

        def offered() -> Any:
            offer = self._artifacts.offer(whose, size)
            return {"url": offer and offer.url, "name": offer and offer.name}

        return self._disk.submit(offered)

    def arrived_artifact(self, call: Call) -> Any:
        """Read here and compared, whoever says what it is."""
        digest, name = call.path["digest"], fitted("an upload", call.body, _ARRIVED).get("name", "")
        whose = owner_of(call.principal)

        def kept() -> Any:
            return {"digest": digest, "size": self._artifacts.arrived(whose, name, digest)}

        return self._disk.submit(kept)

    def looked_up(self, digests: Iterable[str], then_do: Callable[[], Future[Any]]) -> Future[Any]:
        """What a use case does that asks whether these are here. A store on another machine is
        asked apart: whoever else calls does not wait for it."""
        if self._artifacts.knows(digests):
            return then_do()
        return self._disk.submit(lambda: then_do().result())

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
