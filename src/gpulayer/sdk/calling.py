"""What a cached call here depends on besides its spec: the folder that it runs in, the packages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulayer.gpu.installed import packages, version_and_folders
from gpulayer.sdk.packing import pack
from gpulayer.sdk.places import Places
from gpulayer.sdk.provenance import bare, digest_of


def called(spec: Mapping[str, Any], origin: Mapping[str, Any], *, is_far: bool) -> dict[str, Any]:
    """The `call` that belongs into the origin of a cached job: {tree, world}; nothing for one that
    may run elsewhere. The tree is what would be sent of a command's folder, of a function's own
    folder or package; a source that is sent stands in the spec. Nothing is sent. Raises what
    `pack` does, such as `source-refused` for a home folder."""
    if is_far or (spec.get("placement") or {}).get("target") not in (None, "local"):
        return {}
    python: Mapping[str, Any] = origin.get("interpreter") or {}
    path, version = str(python.get("path") or ""), python.get("version")
    version, folders = version_and_folders(path, version, Path(os.path.expanduser("~")))
    found = None if folders is None else packages(folders)
    call = {"world": digest_of([version, path if found is None else found])}
    if not spec["workload"].get("source"):
        folder, function = str(origin["cwd"]), origin.get("function")
        source = None if function else "."
        made = pack(spec, folder=folder, source=source, function=function, places=Places.find())
        call["tree"] = bare(str(made.spec["workload"].get("source") or ""))
    return {"call": call}
