"""References of container images: their parts, their full names, whether they are pinned. Pure.

As Docker reads them: a first part with a dot, a colon, or called `localhost` is a registry; without
one it is Docker Hub, where a name without a slash is in `library`. A tag says what its owner last
meant by it, a digest always the same bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpulayer.errors import RefusedError

HUB = "docker.io"
LATEST = "latest"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Reference:
    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @property
    def name(self) -> str:
        """With its registry, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def by_digest(self) -> str:
        """What an engine is asked for: the tag is for people, and some engines refuse both."""
        return f"{self.name}@{self.digest}"

    @property
    def by_tag(self) -> str:
        return f"{self.name}:{self.tag or LATEST}"

    @property
    def is_local(self) -> bool:
        """Whether no registry has it: `localhost/NAME` is how engines call what was built there."""
        return self.registry == "localhost"


def parse(text: str) -> Reference | None:
    """None: it is no reference."""
    rest, at, digest = text.partition("@")
    if at and _DIGEST.fullmatch(digest) is None:
        return None
    tag = None
    slash, colon = rest.rfind("/"), rest.rfind(":")
    if colon > slash:
        rest, tag = rest[:colon], rest[colon + 1 :]
        if _TAG.fullmatch(tag) is None:
            return None
    first, slashed, path = rest.partition("/")
    if not slashed or not (set(".:") & set(first) or first == "localhost"):
        first, path = HUB, rest if slashed else f"library/{rest}"
    if _PATH.fullmatch(path) is None or _HOST.fullmatch(first) is None:
        return None
    return Reference(first, path, tag, digest or None)


def is_pinned(text: str) -> bool:
    found = parse(text)
    return found is not None and found.digest is not None


def pinned(text: str, digest: str) -> str:
    """The same image for ever, with the tag that it had at that moment."""
    return f"{text}@{digest}"


def require_pinned(image: str | None) -> None:
    """A tag may mean another image at the next attempt. Who submits asks for its digest."""
    if image is not None and not is_pinned(image):
        raise RefusedError(
            "image-unresolved",
            f"{image} is a tag: the job needs the digest of its image",
            why="a tag may mean another image tomorrow, so a plane records name@sha256:...",
            hint=f"gpulayer submit --image {image} -- COMMAND",
        )
