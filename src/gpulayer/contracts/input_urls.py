"""Addresses from which a worker fetches an input, and how people write them. Pure.

    https://HOST/FILE#sha256=DIGEST[:PATH]      s3://BUCKET/KEY#sha256=DIGEST[:PATH]

The digest is the name of what is wanted: an address may say something else tomorrow.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from gpulayer.contracts import limits

SCHEMES = ("https://", "s3://")
_URL = re.compile(r"(https|s3)://[^/?#\s]+/[^#\s]+")
_SAID = re.compile(r"(?P<url>[^#]*)#sha256=(?P<digest>[0-9a-f]{64})(?::(?P<path>.*))?", re.DOTALL)


class Said(NamedTuple):
    url: str
    digest: str
    path: str
    """Where it is staged: as said, or the last part of the address."""


def url_fault(url: str) -> tuple[str, str] | None:
    """What is wrong with an address, and what to do about it."""
    if len(url) > limits.URL_CHARACTERS:
        return f"has {len(url)} characters; up to {limits.URL_CHARACTERS} are allowed", "shorten it"
    if not url.isprintable() or _URL.fullmatch(url) is None:
        return (
            "must be an address of one file",
            'write it as "https://host/file" or "s3://bucket/key"',
        )
    if "@" in urlsplit(url).netloc:
        return (
            "has a login in it, and a spec is no place for it",
            "fetch it in the job, with a secret",
        )
    return None


def read_said(text: str) -> Said | None:
    """What somebody wrote; None without a digest that is one."""
    found = _SAID.fullmatch(text)
    if found is None:
        return None
    url = found["url"]
    name = unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    return Said(url, found["digest"], found["path"] or name)


def shown(url: str) -> str:
    """An address without what may be a right in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
