"""The world that this process lives in, for a client to compare with its own.

A job runs here, so a client in another container, user or group must not run one by mistake.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMESPACES = ("mnt", "pid", "user", "net")


def describe() -> dict[str, Any]:
    """uid, gid, groups, inodes of the namespaces (namespaces(7)), device and inode of the root."""
    root = os.stat("/")
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": sorted(os.getgroups()),
        "ns": {name: _namespace(name) for name in NAMESPACES},
        "root": [root.st_dev, root.st_ino],
    }


def _namespace(name: str) -> int | None:
    try:
        return os.stat(f"/proc/self/ns/{name}").st_ino
    except OSError:
        return None
