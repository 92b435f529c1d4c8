"""From the body of a submission to what the plane is asked for.

What a caller says of its own machine counts on that machine alone. From elsewhere a folder, an
interpreter, visible devices or an envelope mean nothing here, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.named import digests_named
from gpulayer.contracts.principals import Principal, Role
from gpulayer.control_plane.submission import Submission
from gpulayer.errors import UsageError

SUBMISSION = {
    "spec": "Mapping[str, Any]",
    "origin": "Mapping[str, Any] | None",
    "idempotency_key": "str | None",
    "envelope_id": "str | None",
    "refresh": "bool",
}
"""What a body holds, as `contracts.fitting` names it."""

_OF_ITS_MACHINE = frozenset({"attach_id", "call", "cwd", "data", "interpreter", "visible_gpus"})


def submissions_of(
    bodies: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], principal: Principal
) -> list[Submission]:
    """`shared` has what the jobs of a batch have in common: origin and envelope."""
    fitted("a submission", shared, SUBMISSION)
    origin, envelope = origin_of(shared, principal) or {}, envelope_of(shared, principal)
    owner = principal.owner
    return [
        Submission(
            _spec_of(body),
            origin,
            body.get("idempotency_key"),
            envelope,
            owner,
            body.get("refresh") or False,
        )
        for body in bodies
    ]


def named_by(wanted: Iterable[Submission]) -> Iterator[str]:
    """The artifacts that they name. A spec that is none yet names nothing."""
    for submission in wanted:
        try:
            yield from digests_named(submission.spec)
        except (AttributeError, TypeError):
            continue


def _spec_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] | None = fitted("a submission", body, SUBMISSION).get("spec")
    if spec is None:
        raise UsageError("usage", "a submission needs a spec")
    return spec


def origin_of(body: Mapping[str, Any], principal: Principal) -> Mapping[str, Any] | None:
    """None: nothing was said."""
    origin: Mapping[str, Any] | None = body.get("origin")
    if origin is None or principal.role is Role.LOCAL:
        return origin
    return {key: value for key, value in origin.items() if key not in _OF_ITS_MACHINE}


def envelope_of(body: Mapping[str, Any], principal: Principal) -> str | None:
    envelope: str | None = body.get("envelope_id")
    return envelope if principal.role is Role.LOCAL else None
