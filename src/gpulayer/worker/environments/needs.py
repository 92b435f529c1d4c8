"""Which needs are not met by what an environment has, its own packages before those of its base.

A need is a requirement with its extras. Followed are the job's own, those of each package of the
environment, and of a package of the base only those that an extra brings: what else the base
lacks, it lacked before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import Distribution, distributions

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpulayer.worker.environments.base import Base

Found = Mapping[str, Distribution]


def found_in(folders: Iterable[str]) -> dict[str, Distribution]:
    """By normalised name; an earlier folder hides a later one."""
    found: dict[str, Distribution] = {}
    for one in distributions(path=list(folders)):
        name: str | None = one.metadata["Name"]
        if name:
            found.setdefault(canonicalize_name(name), one)
    return found


def unmet(requirements: Sequence[str], own: Found, base: Base) -> list[Requirement]:
    """The needs that nothing there meets, each once."""
    below = found_in(base.folders) if set(base.distributions) - set(own) else {}
    missing: dict[str, Requirement] = {}
    asked: set[tuple[str, frozenset[str]]] = set()
    waiting = [need for text in requirements if _applies(need := Requirement(text), base, "")]
    waiting += [need for name in own for need in _needs(own[name], base, ("",))]
    while waiting:
        need = waiting.pop()
        name, extras = canonicalize_name(need.name), frozenset(need.extras)
        one = own.get(name) or below.get(name)
        if one is None or not _fits(one.version, need):
            missing.setdefault(str(need), need)
        elif (name, extras) not in asked and extras:
            asked.add((name, extras))
            waiting += _needs(one, base, sorted(extras))
    return list(missing.values())


def lacking(pins: Sequence[Requirement], base: Base) -> tuple[list[int], list[str]]:
    """Of a locked set: which of it the base does not have in that very version, and what the base
    has in another one, in words."""
    places, others = [], []
    for place, pin in enumerate(pins):
        if not _applies(pin, base, ""):
            continue
        version = base.distributions.get(canonicalize_name(pin.name))
        if version is None or not _fits(version, pin):
            places.append(place)
            if version is not None:
                others.append(f"{pin.name}{pin.specifier} over {version}")
    return places, others


def faults(pins: Sequence[Requirement], own: Found, base: Base) -> list[str]:
    """Where what is there is not the locked set and nothing but it. What a package of the lock
    needs in another version than the lock has is the lock's own affair."""
    below = found_in(base.folders) if set(base.distributions) - set(own) else {}
    locked = {canonicalize_name(pin.name) for pin in pins}
    wrong = []
    for pin in pins:
        name = canonicalize_name(pin.name)
        one = own.get(name) or below.get(name)
        if _applies(pin, base, "") and (one is None or not _fits(one.version, pin)):
            wrong.append(f"{pin.name}{pin.specifier} is in the lock and not there")
    others = [n for n in unmet((), own, base) if canonicalize_name(n.name) not in locked]
    return wrong + [f"{need} is needed by a package of the lock and not in it" for need in others]


def is_for(versions: str, base: Base) -> bool:
    """Whether a file for these versions of Python is for this one."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(versions).contains(Version(base.version), prereleases=True)
    except InvalidSpecifier:
        return True


def _needs(one: Distribution, base: Base, extras: Sequence[str]) -> list[Requirement]:
    """Those of that distribution itself (extra ""), or those that only an extra brings."""
    found = []
    for text in one.requires or ():
        try:
            need = Requirement(text)
        except InvalidRequirement:
            continue  # of a package of long ago: the installer has passed over it too
        plain = _applies(need, base, "")
        if plain if extras == ("",) else not plain and any(_applies(need, base, e) for e in extras):
            need.marker = None
            found.append(need)
    return found


def _applies(need: Requirement, base: Base, extra: str) -> bool:
    return need.marker is None or need.marker.evaluate({**base.markers, "extra": extra})


def _fits(version: str, need: Requirement) -> bool:
    try:
        return need.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
