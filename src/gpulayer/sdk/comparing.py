"""Two jobs of one plane, with what is still kept of their code and of what they ran in."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from gpulayer.api.transfers import Client
from gpulayer.artifacts import strict_zip
from gpulayer.errors import NotFoundError, RefusedError
from gpulayer.sdk.differing import Comparison, File, Files, Side, compare
from gpulayer.sdk.fetching import copy
from gpulayer.sdk.provenance import bare, nodes_of, world_of

TEXT_BYTES = 64 << 10
"""A longer file is compared as a whole, never line by line."""


def compared(client: Client, before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Of two jobs as the plane tells them. Bundles are fetched where they differ."""
    sources = [job["spec"]["workload"].get("source") for job in (before, after)]
    worlds = {digest: world_of(client, digest) for job in (before, after) for digest in _of(job)}
    files = [None if sources[0] == sources[1] else _files(client, one) for one in sources]
    sides = [Side(job, worlds, file) for job, file in zip((before, after), files, strict=True)]
    return compare(*sides)


def _of(job: Mapping[str, Any]) -> list[str]:
    return [one["world"] for one in nodes_of(job) if one.get("world")]


def _files(client: Client, source: str | None) -> Files | None:
    if not source:
        return None
    with tempfile.TemporaryFile() as bundle:
        try:
            copy(client, bare(source), bundle)
            members = strict_zip.members(bundle)
        except (NotFoundError, RefusedError):
            return None
        found = {}
        for one in members:
            text = None
            if one.size <= TEXT_BYTES:
                bundle.seek(one.start)
                text = _text(bundle.read(one.size))
            found[one.path] = File((one.size, one.crc, one.executable), text)
    return found


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None
