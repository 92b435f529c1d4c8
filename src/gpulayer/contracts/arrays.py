"""Many elements of one job: a count, a list of items, or every combination of parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import InitErrorDetails

from gpulayer.contracts import limits
from gpulayer.contracts.base import Contract, fault, refusal, refuse_all
from gpulayer.contracts.plain_json import PlainList, check_json
from gpulayer.contracts.texts import check_artifact

_RESERVED = ("index", "item")


def _check_items(value: Any) -> Any:
    if isinstance(value, str):
        return check_artifact(value)
    if not isinstance(value, list):
        raise refusal("must be a list or an artifact's address", 'write it as ["a", "b"]')
    if not 0 < len(value) <= limits.ARRAY_ITEMS:
        raise refusal(
            f"has {len(value)} entries; 1 to {limits.ARRAY_ITEMS} may be written out",
            f"a count may be {limits.ARRAY_ELEMENTS}, of which each looks up its own by its index",
        )
    return check_json(value)


def _check_matrix(value: dict[str, list[Any]]) -> dict[str, list[Any]]:
    refuse_all(_matrix_faults(value))
    return value


def _matrix_faults(value: dict[str, list[Any]]) -> Iterator[InitErrorDetails]:
    if not value:
        yield fault((), None, "names no parameter", 'write it as {"lr": [0.1, 0.01]}')
    for name, values in value.items():
        if not (name.isascii() and name.isidentifier()) or len(name) > limits.NAME_CHARACTERS:
            yield fault((name,), None, "is not a parameter's name", "use letters, digits and _")
        elif name in _RESERVED:
            yield fault((name,), None, "is a reserved word of templates", "choose another name")
        elif not 0 < len(values) <= limits.ARRAY_ITEMS:
            yield fault(
                (name,),
                None,
                f"has {len(values)} values; 1 to {limits.ARRAY_ITEMS} are allowed",
                "give at least one, or use items",
            )


class Array(Contract):
    """One of count, items and matrix, and how the elements run together."""

    count: int | None = Field(
        None, ge=1, le=limits.ARRAY_ELEMENTS, description="Elements 0 to count - 1."
    )
    first: int = Field(0, ge=0, le=limits.ARRAY_INDEX, description="Index of the first of count.")
    step: int = Field(
        1, ge=1, le=limits.ARRAY_INDEX, description="From one index of count to the next."
    )
    items: Annotated[
        Any,
        AfterValidator(_check_items),
        WithJsonSchema({"type": ["array", "string", "null"]}),
    ] = Field(None, description="One element for each entry; an artifact holds one JSON per line.")
    matrix: (
        Annotated[
            dict[str, PlainList],
            Field(max_length=limits.ARRAY_PARAMETERS),
            AfterValidator(_check_matrix),
        ]
        | None
    ) = Field(None, description="One element for each combination of the parameters' values.")
    max_parallel: int | None = Field(
        None, ge=1, le=limits.ARRAY_ELEMENTS, description="How many may run at one time."
    )
    max_failures: int | None = Field(
        None, ge=0, le=limits.ARRAY_ELEMENTS, description="More failures than this end the array."
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        refuse_all(_form_faults(self))
        return self


def _form_faults(array: Array) -> Iterator[InitErrorDetails]:
    forms = [f for f in ("count", "items", "matrix") if getattr(array, f) is not None]
    if len(forms) != 1:
        have = " and ".join(forms) if forms else "none"
        yield fault(
            (),
            None,
            f"needs exactly one of count, items and matrix, and has {have}",
            'write it as {"count": 10}',
        )
    elif array.count is None and array.model_fields_set & {"first", "step"}:
        yield fault((), None, f"has first or step beside {forms[0]}", "they belong to count")
    elif array.count is not None and array.first + array.step * (array.count - 1) > (
        limits.ARRAY_INDEX
    ):
        yield fault(
            ("step",),
            array.step,
            f"makes the last index larger than {limits.ARRAY_INDEX}",
            "use smaller numbers, or a list of items",
        )
    elif array.matrix is not None:
        elements = math.prod(len(values) for values in array.matrix.values())
        if elements > limits.ARRAY_ELEMENTS:
            yield fault(
                ("matrix",),
                None,
                f"has {elements} combinations; up to {limits.ARRAY_ELEMENTS} are allowed",
                "take values out",
            )
