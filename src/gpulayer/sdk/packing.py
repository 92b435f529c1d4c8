"""What of this machine travels with a job that runs elsewhere: its source, its inputs.

    with no word about it   a command brings the current folder where one of its words names
                            something in it, or `environment.file` does, else nothing; a function
                            brings its own folder, or without such a file the package that it is in
    --source DIR | none     decides otherwise
    --input SRC[:PATH]      what `inputs` can read, at $GPULAYER_INPUT_DIR/PATH

What the plane has already is never sent again, and of a folder that was sent before no more than
what has changed since.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpulayer.api.transfers import Client
from gpulayer.artifacts.bundle import build_source_bundle
from gpulayer.artifacts.seen import NOTHING_SEEN, Seen, SeenFolders
from gpulayer.clock import SystemClock
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import RefusedError, UsageError
from gpulayer.sdk.folder import working_folder
from gpulayer.sdk.inputs import Given, Job
from gpulayer.sdk.sending import FileParcel, FolderParcel, send_lacking

if TYPE_CHECKING:
    from gpulayer.sdk.places import Places

NONE = "none"


@dataclass(frozen=True, slots=True)
class Packed:
    """A job with everything that it needs, not sent yet."""

    spec: dict[str, Any]
    """Names its source and inputs by digest."""
    function: dict[str, Any]
    """`function` of the origin, meaning paths inside the bundle; {} where it has none."""
    parcels: tuple[FileParcel | FolderParcel, ...]
    """What of this machine it names: its source first."""
    inputs: tuple[Mapping[str, Any], ...] = ()
    """Those that were given beside the spec."""

    def onto(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Another job of the same kind with what this one brings."""
        made = {**spec, "workload": dict(spec["workload"])}
        if "source" in self.spec["workload"]:
            made["workload"]["source"] = self.spec["workload"]["source"]
        if "environment" in self.spec:
            made["environment"] = self.spec["environment"]
        if self.inputs:
            made["inputs"] = [*(spec.get("inputs") or ()), *self.inputs]
        return made

    def say(self) -> list[str]:
        """What travels, a line each."""
        return [parcel.say() for parcel in self.parcels]

    def send(self, transport: Client) -> int:
        """Give the plane what it lacks; the bytes that were sent."""
        return send_lacking(transport, self.parcels)


def pack(
    spec: Mapping[str, Any],
    *,
    folder: str | None = None,
    source: str | None = None,
    inputs: Sequence[str] = (),
    function: Mapping[str, Any] | None = None,
    places: Places | None = None,
    job: Job | None = None,
) -> Packed:
    """The job with its source and inputs; nothing is sent yet.

    `folder`: the current one if not said. `source`: `none`, a folder or an artifact's address.
    `inputs`: `SRC[:PATH]` each, as `sdk.inputs` reads them; `job` looks up those that they name.
    `function`: of the origin, as `entrypoint_of` makes it. `places` remembers what folders held.
    Raises what `build_source_bundle` does, NotFoundError for an input that is not there,
    UsageError for two wishes that exclude each other.
    """
    folder = os.path.realpath(folder or working_folder())
    made = {**spec, "workload": dict(spec["workload"])}
    seen = _memory(places)
    without = () if places is None else (places.home, places.state, places.bulk)
    parcels: list[FileParcel | FolderParcel] = []
    where = None if made["workload"].get("source") else _source(made, folder, source, function)
    if where is not None:
        if where.root.startswith(ADDRESS):
            made["workload"]["source"] = where.root
        else:
            if source is not None and not function and (spec.get("environment") or {}).get("file"):
                made["environment"] = _inside(spec["environment"], folder, where.root)
            parcels.append(_built(where, without, seen, was_said=source is not None))
            made["workload"]["source"] = ADDRESS + parcels[0].digest
    given = Given(folder, without, seen, job)
    for text in inputs:
        given.add(text)
    if given.refs:
        made["inputs"] = [*(made.get("inputs") or ()), *given.refs]
        parcels += given.parcels
    root = "" if where is None else where.root
    function = _function_inside(function or {}, root)
    return Packed(made, function, tuple(parcels), tuple(given.refs))


def _built(where: _Source, without: Sequence[str], seen: Seen, *, was_said: bool) -> FolderParcel:
    before = seen.last(os.path.join(os.path.realpath(where.root), where.within))
    try:
        bundle = build_source_bundle(where.root, within=where.within, without=without, seen=seen)
    except RefusedError as error:
        if not was_said:  # nobody asked for it, so it can do without
            error.help = ("--source none", *error.help)
        raise
    return FolderParcel(bundle, "bundle", before)


@dataclass(frozen=True, slots=True)
class _Source:
    root: str
    within: str = ""
    """Only this folder below the root."""


def _source(
    spec: Mapping[str, Any], folder: str, source: str | None, function: Mapping[str, Any] | None
) -> _Source | None:
    if source == NONE:
        return None
    if source is not None:
        return _Source(source if source.startswith(ADDRESS) else os.path.join(folder, source))
    workload = spec["workload"]
    if workload["kind"] == "command":
        is_needed = (spec.get("environment") or {}).get("file")
        return _Source(folder) if is_needed or _names_a_file(workload["command"], folder) else None
    if workload["kind"] == "distributed" and workload.get("entrypoint"):
        return _Source(folder)
    if function:
        found = _of_function(workload, function)
        has_file = (spec.get("environment") or {}).get("file")
        return _Source(found.root if found else folder) if has_file else found
    entrypoint = str(workload.get("entrypoint") or workload.get("function") or "")
    return _Source(folder) if _is_module(entrypoint.partition(":")[0], folder) else None


def _inside(environment: Mapping[str, Any], folder: str, root: str) -> dict[str, Any]:
    """Its file is named from the current folder, and read in the one that is sent."""
    path = os.path.join(folder, environment["file"])
    within = os.path.relpath(path, os.path.realpath(root))
    if within.startswith(os.pardir):
        raise UsageError(
            "usage",
            f"{environment['file']} is not in {root}, which is what is sent",
            hint=f"--source {os.path.dirname(path)}",
        )
    return {**environment, "file": within}


def _of_function(workload: Mapping[str, Any], function: Mapping[str, Any]) -> _Source | None:
    """The folder that its file is in, or its package alone. Source text travels by itself."""
    paths = function.get("sys_path") or ()
    if function.get("source") or not paths:
        return None
    name = str(workload.get("entrypoint") or workload.get("function") or "")
    module = str(function.get("module") or name.partition(":")[0])
    package = module.partition(".")[0]
    is_package = not function.get("file") and os.path.isdir(os.path.join(paths[0], package))
    return _Source(paths[0], package if is_package else "")


def _function_inside(function: Mapping[str, Any], root: str) -> dict[str, Any]:
    kept = {key: function[key] for key in ("module", "source") if function.get(key)}
    if function.get("file") and root:
        kept["file"] = os.path.relpath(function["file"], root)
    return kept


def _names_a_file(words: Sequence[str], folder: str) -> bool:
    """Whether a word, or what follows its `=`, is the relative path of something in the folder;
    with `python -m`, the name of a module in it."""
    for word in words:
        for text in {word, word.partition("=")[2]}:
            if text and not os.path.isabs(text) and _is_inside(text, folder):
                return True
    if "-m" in words[1:-1] and os.path.basename(words[0]).startswith("python"):
        return _is_module(words[words.index("-m") + 1], folder)
    return False


def _is_inside(text: str, folder: str) -> bool:
    path = os.path.normpath(os.path.join(folder, text))
    return (path == folder or path.startswith(folder + os.sep)) and os.path.exists(path)


def _is_module(name: str, folder: str) -> bool:
    first = os.path.join(folder, name.partition(".")[0])
    return bool(name) and (os.path.isfile(first + ".py") or os.path.isdir(first))


def _memory(places: Places | None) -> Seen:
    if places is None:
        return NOTHING_SEEN
    return SeenFolders(os.path.join(places.state, "bundles"), SystemClock().now())
