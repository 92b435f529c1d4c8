"""Whether a line is a requirement that a spec may hold. Pure, and light: no pydantic."""

from __future__ import annotations

import re

from gpulayer.contracts import limits

MEND = 'write it as "name>=1.2"; say where packages come from in the worker\'s own settings'
_SHOWN = 80
_LOGIN = re.compile(r"://[^/@\s]+@")


def requirement_fault(value: str) -> str | None:
    """What is wrong with it, with the line itself; None for a PEP 508 requirement by name.
    Options, addresses and paths would let a spec choose where code comes from."""
    from packaging.requirements import InvalidRequirement, Requirement

    if not 0 < len(value) <= limits.REQUIREMENT_CHARACTERS:
        return f"must have 1 to {limits.REQUIREMENT_CHARACTERS} characters, not {len(value)}"
    shown = repr(_LOGIN.sub("://****@", value)[:_SHOWN])
    if value.lstrip().startswith("-"):
        return f"is {shown}, an option of an installer and not a requirement"
    try:
        requirement = Requirement(value)
    except InvalidRequirement:
        return f"is {shown}, which is not a requirement (PEP 508)"
    if requirement.url is not None:
        return f"is {shown}, an address or a path instead of a package's version"
    if "\n" in value or "\r" in value:
        return f"is {shown}, which is more than one line"
    return None
