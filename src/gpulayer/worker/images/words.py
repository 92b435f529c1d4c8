"""What an engine's messages mean, and what to do about them. Pure.

Both engines pass on the words of registries and of the system, which are much the same for years;
what is not recognised is told as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ABSENT = re.compile(
    r"(?i)no such image|image not known|no such object|unable to find image|"
    r"failed to find image|reference does not exist"
)
_LIMITS = re.compile(r"(?i)rlimit\w*\W.*(not permitted|denied)")
_OTHER_BYTES = (
    "mismatch|not match.{0,80}digest|digest.{0,80}not match|unexpected.{0,40}digest|"
    "verification failed|layer verif"
)
_OTHER_MACHINE = (
    "no matching manifest|no image found in (manifest|image)|choosing an image|"
    "no child with platform"
)
_NO_WAY = (
    "dial tcp|no such host|unreachable|connection re(fused|set)|timeout|TLS handshake|"
    "server gave HTTP response"
)
_GROUPS = re.compile(r"(?i)cgroup|resource limits|swap limit|controller")


@dataclass(frozen=True, slots=True)
class Meaning:
    slug: str
    what: str
    """Goes on from the image's name."""
    mend: str = ""


def of_pull(output: str, registry: str, engine: str) -> Meaning:
    """Of a pull that failed."""
    for pattern, meaning in (
        ("no space left|disk quota", Meaning("disk-full", "has no room on its disk")),
        (
            "unauthorized|authentication required|access.{0,20}denied|forbidden|denied:",
            Meaning("image-failed", f"is not shown to that machine by {registry}, or is not there",
                    f"{engine} login {registry}"),
        ),
        (
            "manifest unknown|not found|name unknown|404|does not exist",
            Meaning("image-failed", f"is not at {registry}"),
        ),
        (
            _OTHER_BYTES,
            Meaning("image-failed", f"came from {registry} with other bytes than its digest names"),
        ),
        (
            _OTHER_MACHINE,
            Meaning("image-failed", "is not made for this kind of machine"),
        ),
        (
            _NO_WAY,
            Meaning("image-failed", f"could not be fetched: {registry} cannot be reached"),
        ),
    ):  # fmt: skip
        if re.search(f"(?is){pattern}", output):
            return meaning
    return Meaning("image-failed", "could not be pulled")


def is_absent(output: str) -> bool:
    """Whether it says that it has no such image."""
    return _ABSENT.search(output) is not None


def is_about_ulimits(output: str) -> bool:
    """Whether it could not raise a limit of processes: it lacks the right to, as in a container."""
    return _LIMITS.search(output) is not None


def is_warning(output: str) -> bool:
    return re.search(r"(?i)warn|ignored", output) is not None


def is_about_groups(output: str) -> bool:
    """Whether it cannot limit memory or cores here, or warns that it does so in part."""
    return _GROUPS.search(output) is not None


def architecture(name: str) -> str:
    """As capabilities call it."""
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(name, name)
