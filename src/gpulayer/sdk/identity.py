"""Who and where a process is, and whether a supervisor is of the same world.

User, groups, namespaces and root folder cannot be handed over: they are compared, and a
difference is refused (namespaces(7), credentials(7)).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def own_identity() -> dict[str, Any]:
    """Who and where this process is, in the form of the supervisor's `hello`."""
    root = os.stat("/")
    return {
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "groups": sorted(os.getgroups()),
        "ns": {name: _namespace(name) for name in ("mnt", "pid", "user", "net")},
        "root": [root.st_dev, root.st_ino],
    }


def require_same(theirs: Mapping[str, Any], mine: Mapping[str, Any] | None = None) -> None:
    """Raise `wrong-world` where a job of that supervisor would see another machine than we do.

    What either side cannot tell (no /proc) is not compared.
    """
    mine = own_identity() if mine is None else mine
    names = {"mnt": "files", "pid": "processes", "user": "users", "net": "network"}
    for key, what in names.items():
        here, there = mine["ns"].get(key), theirs.get("ns", {}).get(key)
        if here and there and here != there:
            raise _wrong_world(f"another {key} namespace: it sees other {what}", "")
    if theirs.get("root") and list(theirs["root"]) != list(mine["root"]):
        raise _wrong_world("another root folder", "")
    if theirs.get("uid") not in (None, mine["uid"]):
        raise _wrong_world(f"user {theirs['uid']}, and you are {mine['uid']}", "")
    lacking = _groups(mine) - _groups(theirs)
    if theirs.get("groups") is not None and lacking:
        ids = ", ".join(str(group) for group in sorted(lacking))
        raise _wrong_world(f"it was started without your groups: {ids}", "gpulayer stop")


def _namespace(name: str) -> int | None:
    try:
        return os.stat(f"/proc/self/ns/{name}").st_ino
    except OSError:
        return None


def _groups(world: Mapping[str, Any]) -> set[int]:
    return {int(group) for group in world.get("groups") or ()} | {int(world.get("gid") or 0)}


def _wrong_world(why: str, hint: str) -> Exception:
    from gpulayer.errors import RefusedError

    return RefusedError(
        "wrong-world",
        "the local plane lives in another world than this terminal",
        why=why,
        hint=hint or f"export GPULAYER_HOME=$HOME/.gpulayer-{os.uname().nodename}",
    )
