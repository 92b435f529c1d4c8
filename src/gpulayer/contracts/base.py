"""What all contract models share: strictness, and refusals that say how to mend.

A refusal is a pydantic error whose type is one of our slugs and whose context carries the mend and
the fields it is about, so that `contracts.problems` can tell people all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from gpulayer.contracts import limits

API_VERSION: Final = "gpulayer.dev/v1alpha1"

Slug = Literal["invalid-field", "unsafe-path"]


class Contract(BaseModel):
    """Unknown fields, text for numbers and NaN are refused; a model never changes once made."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        hide_input_in_errors=True,
    )


def fill(model: Contract, **derived: Any) -> None:
    """Give a model its derived defaults while it is being made. They do not count as set, so a
    client never sends them."""
    model.__dict__.update(derived)


def refusal(
    message: str, mend: str, *, slug: Slug = "invalid-field", about: tuple[str, ...] = ()
) -> PydanticCustomError:
    """For a validator to raise. `message` goes on from the field's name: `must be ...`.

    `about` names every field (dotted, from the root) that the rule looked at besides its own.
    """
    return PydanticCustomError(
        slug, "{message}", {"message": message, "mend": mend, "about": about}
    )


def fault(
    at: tuple[str | int, ...],
    value: Any,
    message: str,
    mend: str,
    *,
    slug: Slug = "invalid-field",
    about: tuple[str, ...] = (),
) -> InitErrorDetails:
    """A refusal at a place below the validator's own. A text given as `value` is shown before the
    message; leave it None where the message says it, and for what may be secret."""
    return InitErrorDetails(
        type=refusal(message, mend, slug=slug, about=about), loc=at, input=value
    )


def refuse_all(faults: Iterable[InitErrorDetails]) -> None:
    """Raise all the faults at once, if there are any; a hundred are enough."""
    found = list(islice(faults, limits.PROBLEMS + 1))
    if found:
        raise ValidationError.from_exception_data("faults", found)
