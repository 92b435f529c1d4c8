"""What a plane asks a worker besides tasks: what it keeps, and to let go of some of it.

    caches               environments, fetched artifacts, workspaces of ended tasks, images, with
                         sizes
    remove_environments  those of these keys, or all that no task uses

All are harmless twice. Nothing that a task uses is ever removed, nor what is being made.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from gpulayer.contracts.messages import Errand
from gpulayer.worker import room
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.environments.store import Environments
from gpulayer.worker.images.store import Images
from gpulayer.worker.steps import leftovers

ALL = ("environments", "artifacts", "workspaces", "images")


class Errands:
    """Thread-safe."""

    def __init__(
        self,
        tasks: str,
        environments: Environments,
        artifacts: ArtifactCache,
        held: Callable[[], Container[str]],
        images: Images | None = None,
    ) -> None:
        """`tasks` is the folder of the tasks' folders, `held` gives those that live."""
        self._tasks = tasks
        self._environments = environments
        self._artifacts = artifacts
        self._held = held
        self._images = images

    def do(self, errand: Errand) -> dict[str, Any]:
        """Its answer. Raises ValueError for one that is not known."""
        match errand.verb:
            case "caches":
                return self._caches(errand.body.get("what") or ALL)
            case "remove_environments":
                return self._remove(errand.body)
        raise ValueError(f"this worker does not know the errand {errand.verb!r}")

    def _caches(self, what: Container[str]) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if "environments" in what:
            told["environments"] = self._environments.listed()
        if "artifacts" in what:
            count, size = self._artifacts.held()
            told["artifacts"] = {"count": count, "bytes": size}
        if "workspaces" in what:
            ended = leftovers.ended(self._tasks, self._held())
            sizes = [room.held(entry.path) for entry in ended]
            told["workspaces"] = {"count": len(sizes), "bytes": sum(sizes)}
        if "images" in what:
            told["images"] = self._images.listed() if self._images is not None else []
        return told

    def _remove(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """{removed: [{key, bytes}], kept: [{key, why, used_by}], unknown: [key]}"""
        known = {one["key"]: one for one in self._environments.listed()}
        asked, unknown, kept = list(known) if body.get("unused") else [], [], []
        for word in body.get("keys") or ():
            found = [key for key in known if key.startswith(word)]
            if len(found) == 1:
                asked += found
            elif found:
                kept.append({"key": word, "why": "several begin like this", "used_by": []})
            else:
                unknown.append(word)
        removed = []
        for key in dict.fromkeys(asked):
            if self._environments.remove(key):
                removed.append({"key": key, "bytes": known[key]["bytes"]})
            else:
                users = self._environments.users().get(key, [])
                why = "a job uses it" if users else "it is being made"
                kept.append({"key": key, "why": why, "used_by": users})
        return {"removed": removed, "kept": kept, "unknown": unknown}
