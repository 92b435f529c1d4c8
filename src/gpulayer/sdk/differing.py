"""What differs between two jobs: what was asked, the code, what they ran in, and how they ended.

What cannot be compared, since it was never told or is not kept any more, is said and never taken
for equal. Pure; the files of the code come from `sources`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gpulayer.sdk.provenance import account, bare

FILES_SHOWN, LINES_SHOWN = 20, 200
"""Files whose lines are compared, and most lines of each comparison."""


@dataclass(frozen=True, slots=True)
class Difference:
    part: str
    """`spec`, `code`, `environment`, `worker` or `result`."""
    name: str
    before: Any
    after: Any
    """None: it has none."""
    lines: tuple[str, ...] = ()
    """Of a changed text: as `diff -u` shows it."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class File:
    """One file of a source bundle."""

    mark: tuple[int, int, bool]
    """Size, checksum, whether it is executable."""
    text: str | None = None
    """None: it is large or no text."""


Files = Mapping[str, File]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two jobs."""

    job: Mapping[str, Any]
    """As the plane tells it."""
    worlds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By digest; one that is not kept any more is missing or empty."""
    files: Files | None = None
    """Of its source bundle. None: it brought none, or it is not kept any more."""

    @property
    def account(self) -> dict[str, Any]:
        return account(self.job, lambda digest: self.worlds.get(digest or "", {}))


@dataclass(frozen=True, slots=True)
class Comparison:
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]
    """What could not be compared, a sentence each."""

    def to_json(self) -> dict[str, Any]:
        told = [one.to_json() for one in self.differences]
        return {"differences": told, "unknown": list(self.unknown)}


def compare(before: Side, after: Side) -> Comparison:
    unknown: list[str] = []
    found = [
        *_pairs("spec", _spec(before.job["spec"]), _spec(after.job["spec"])),
        *_code(before, after, unknown),
        *_ran_in(before, after, unknown),
        *_pairs("result", _ending(before.job), _ending(after.job)),
    ]
    return Comparison(tuple(found), tuple(dict.fromkeys(unknown)))


def _pairs(part: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield Difference(part, name, a.get(name), b.get(name))


def flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names of a JSON object's leaves; a list is one leaf."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{at}.{key}" if at else str(key))
    else:
        yield at, value


def _spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, but for its code; inputs by their paths."""
    work = {key: value for key, value in spec["workload"].items() if key != "source"}
    rest = {key: value for key, value in spec.items() if key not in ("workload", "inputs")}
    inputs = {
        f"inputs.{one['path']}": bare(one.get("url") or one["artifact"])
        for one in spec.get("inputs") or ()
    }
    return {**dict(flat({**rest, "workload": work})), **inputs}


def _code(before: Side, after: Side, unknown: list[str]) -> Iterator[Difference]:
    a, b = before.account["code"], after.account["code"]
    yield from _pairs("code", a, b)
    if a.get("source") and a.get("source") == b.get("source"):
        return
    if before.files is not None and after.files is not None:
        yield from _files(before.files, after.files)
        return
    for side, code in ((before, a), (after, b)):
        if code.get("source"):
            if side.files is None:
                unknown.append(f"code of {side.job['id']}: its bundle is not kept any more")
        elif code.get("dirty") is not False:
            unknown.append(f"code of {side.job['id']}: it ran in its folder, of which no copy is "
                           "kept, and which is not all in a commit")  # fmt: skip


def _files(a: Files, b: Files) -> Iterator[Difference]:
    changed = [path for path in sorted(a.keys() | b.keys()) if _mark(a, path) != _mark(b, path)]
    for number, path in enumerate(changed):
        before, after = _word(a.get(path)), _word(b.get(path))
        lines = _unified(path, a.get(path), b.get(path)) if number < FILES_SHOWN else ()
        yield Difference("code", path, before, after, lines)


def _mark(files: Files, path: str) -> tuple[int, int, bool] | None:
    return files[path].mark if path in files else None


def _word(file: File | None) -> str | None:
    if file is None:
        return None
    size, checksum, executable = file.mark
    return f"{size} bytes, {checksum:08x}" + (", executable" if executable else "")


def _unified(path: str, a: File | None, b: File | None) -> tuple[str, ...]:
    if a is None or b is None or a.text is None or b.text is None:
        return ()
    texts = a.text.splitlines(), b.text.splitlines()
    told = difflib.unified_diff(*texts, f"a/{path}", f"b/{path}", lineterm="")
    lines = list(told)
    more = len(lines) - LINES_SHOWN
    return (*lines[:LINES_SHOWN], *([f"... and {more} more lines"] if more > 0 else ()))


def _ran_in(before: Side, after: Side, unknown: list[str]) -> Iterator[Difference]:
    a, b = before.account["ran_in"], after.account["ran_in"]
    for side, nodes in ((before, a), (after, b)):
        if not any(node.get("host") for node in nodes):
            why = "was never told" if not nodes[0].get("world") else "is not kept any more"
            unknown.append(f"environment and worker of {side.job['id']}: what it ran in {why}")
    for number in range(max(len(a), len(b))):
        one, other = (dict(nodes[number]) if number < len(nodes) else {} for nodes in (a, b))
        if not (one.get("host") and other.get("host")) and number < min(len(a), len(b)):
            continue
        at = f"node {number}: " if max(len(a), len(b)) > 1 else ""
        for part, told in (("environment", _packages), ("worker", _machine)):
            for found in _pairs(part, told(one), told(other)):
                yield Difference(part, at + found.name, found.before, found.after)


def _packages(world: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the prepared environment hide those of the Python below it, as at run time."""
    found: dict[str, Any] = {}
    for name in ("python", "environment"):
        layer = world.get(name) or {}
        found |= {f"{name} {key}": value for key, value in layer.items() if key != "packages"}
        found |= layer.get("packages") or {}
    return found


def _machine(world: Mapping[str, Any]) -> dict[str, Any]:
    names = ("worker", "host", "os", "kernel", "cpu_arch", "gpulayer", "driver", "cuda", "engine")
    found = {name: world[name] for name in names if world.get(name)}
    gpus = world.get("gpus") or ()
    return {**found, **{f"gpu {at}": f"{g['name']} {g['uuid']}" for at, g in enumerate(gpus)}}


def _ending(job: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: job.get(key) for key in ("state", "reason", "exit_code")}
    result = job.get("result") or {}
    if "value" in result:
        found["value"] = json.dumps(result["value"], sort_keys=True)
    if result.get("error"):
        found["error"] = str(result["error"].get("message") or "")
    return found | {f"output {one['path']}": one["digest"] for one in job.get("outputs") or ()}
