"""A job once more with exactly what it had: the same words, code, inputs and image by digest, and
the packages that it was given then, each by its version. Or a refusal that names what has gone.

What is not part of a job cannot be part of this: the variables of a terminal are those of now.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpulayer.api.transfers import MISSING, Client
from gpulayer.contracts.named import digests_named
from gpulayer.errors import RefusedError
from gpulayer.gpu.installed import packages, version_and_folders
from gpulayer.sdk.provenance import World, nodes_of, world_of
from gpulayer.sdk.repository import commit_of

_INSTALLERS = frozenset(("pip", "setuptools", "wheel"))
"""What an installer may leave beside what was asked for; no job asked for it."""


def exact_spec(client: Client, job: Mapping[str, Any], *, is_here: bool) -> dict[str, Any]:
    """The spec of the same job again. `is_here`: it runs on this machine, so that its folder and
    its Python can be looked at. Raises `not-exact` with everything that is no longer there."""
    spec = job["spec"]
    told = nodes_of(job)
    world = world_of(client, told[0].get("world") if told else None)
    gone = [*_artifacts(client, spec), *_world(job, world)]
    if is_here:
        gone += _python(world)
    if not spec["workload"].get("source"):
        gone += _folder(job, is_here=is_here)
    if gone:
        raise RefusedError(
            "not-exact",
            f"{job['id']} cannot be run again exactly as it was",
            why="\n".join(gone),
            hint=f"gpulayer retry {job['id']}",
            job_id=str(job["id"]),
        )
    return pinned(spec, world, with_python=not is_here)


def pinned(spec: Mapping[str, Any], world: World, *, with_python: bool = False) -> dict[str, Any]:
    """The spec with what was resolved in the place of what was asked for. A lock is exact
    already. `with_python`: it may run where another Python is. Pure."""
    made = dict(spec)
    layer = (world.get("environment") or {}).get("packages")
    environment = spec.get("environment") or {}
    if environment.get("requirements") and not environment.get("file") and layer:
        exact = [f"{name}=={version}" for name, version in layer.items() if name not in _INSTALLERS]
        made["environment"] = {**environment, "requirements": exact}
    version = (world.get("python") or {}).get("version")
    if version and with_python and not spec.get("image"):
        made["resources"] = {**(spec.get("resources") or {}), "python": f"=={version}"}
    return made


def _artifacts(client: Client, spec: Mapping[str, Any]) -> Iterator[str]:
    digests = list(dict.fromkeys(digests_named(spec)))
    if not digests:
        return
    for digest in client.call("POST", MISSING, {"digests": digests})["missing"]:
        is_code = str(spec["workload"].get("source") or "").endswith(digest)
        what = "its source" if is_code else "an input of it"
        yield f"{what} is not kept any more: artifact {digest}"


def _world(job: Mapping[str, Any], world: World) -> Iterator[str]:
    if not world:
        why = "is not kept any more" if any(one.get("world") for one in nodes_of(job)) else (
            "was never told")  # fmt: skip
        yield f"what it ran in {why}"
        return
    asked = (job["spec"].get("environment") or {}).get("requirements")
    if asked and (world.get("environment") or {}).get("packages") is None:
        yield "the versions of its packages were not told"


def _python(world: World) -> Iterator[str]:
    """Whether its Python is what it was."""
    python = world.get("python") or {}
    if not python or python.get("packages") is None:
        return
    path, before = str(python["path"]), python["packages"]
    home = Path(os.path.expanduser("~"))
    version, folders = version_and_folders(path, None, home)
    if folders is None and os.path.exists(path):  # it says its version to those alone who start it
        version, folders = version_and_folders(path, python.get("version"), home)
    if folders is None:
        yield f"its Python is no longer at {path}"
        return
    if version != python.get("version"):
        yield f"the Python at {path} is {version} now, and was {python.get('version')}"
        return
    now = packages(folders)
    changed = [
        f"{name} {before.get(name, '-')} -> {now.get(name, '-')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if changed[5:] else "")
        yield f"the packages of {path} are others: {shown}"


def _folder(job: Mapping[str, Any], *, is_here: bool) -> Iterator[str]:
    """A folder of which no copy was sent is the same where it is at the same commit."""
    origin = job.get("origin") or {}
    if not is_here and job["spec"]["workload"]["kind"] == "command":
        return  # it brought no code, so it has none to lose
    folder, then = str(origin.get("cwd") or ""), origin.get("code") or {}
    if not then.get("commit") or then.get("dirty"):
        why = "was in no commit" if not then.get("commit") else "had changes that were in no commit"
        yield f"its folder {folder} {why}, and no copy is kept; --source . keeps one"
        return
    now = commit_of(folder)
    if now.get("commit") != then["commit"]:
        at = f"is at {now['commit'][:12]}" if now.get("commit") else "is in no repository"
        yield f"its folder {folder} {at} now, and was at {then['commit'][:12]}"
    elif now.get("dirty"):
        yield f"its folder {folder} has changes now that are in no commit"
