"""The kinds of text in a spec, each with its rule: names, paths, artifacts, entrypoints, versions.

All are matched whole and in ASCII, so that no look-alike letter or trailing newline slips through.
"""

from __future__ import annotations

import functools
import re
from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from gpulayer.contracts import limits
from gpulayer.contracts.base import refusal
from gpulayer.contracts.images import parse as image_parts
from gpulayer.contracts.input_urls import url_fault
from gpulayer.contracts.requirement_lines import MEND, requirement_fault
from gpulayer.contracts.safe_paths import path_fault

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_ARTIFACT = re.compile(r"artifact://sha256/[0-9a-f]{64}")
_MODULE = r"(?!__\w+__(?:\.|:|\Z))[A-Za-z_][A-Za-z0-9_]*"
_MODULES = re.compile(rf"{_MODULE}(?:\.{_MODULE})*")
_ENTRYPOINT = re.compile(rf"{_MODULE}(?:\.{_MODULE})*:{_MODULE}")


def check_name(value: str) -> str:
    if not value:
        raise refusal("must not be empty", "use 1 to 63 letters, digits, _ . -")
    if len(value) > limits.NAME_CHARACTERS:
        raise refusal(
            f"has {len(value)} characters; up to {limits.NAME_CHARACTERS} are allowed", "shorten it"
        )
    if _NAME.fullmatch(value) is None:
        raise refusal(
            "may hold letters, digits, _ . - only",
            f'write "{re.sub(r"[^A-Za-z0-9_.-]+", "-", value)}"',
        )
    return value


def check_choice(value: str) -> str:
    """A worker, provider, region, system: what others named, so printable text without blanks."""
    if not 0 < len(value) <= limits.CHOICE_CHARACTERS:
        raise refusal(
            f"must have 1 to {limits.CHOICE_CHARACTERS} characters, not {len(value)}",
            "give the name alone",
        )
    if not value.isprintable() or " " in value:
        raise refusal(
            "must have no blanks and no control characters", "give the name as it is listed"
        )
    return value


def label_fault(value: str) -> tuple[str, str] | None:
    """Why a label's key or value is refused. Labels are free-form, as long as they can be printed
    in a table and put into a page as they are."""
    if len(value) > limits.LABEL_CHARACTERS:
        return (
            f"has {len(value)} characters; up to {limits.LABEL_CHARACTERS} are allowed",
            "shorten it",
        )
    if not value.isprintable() or "<" in value or ">" in value:
        return "must be printable text without < and >", "take those characters out"
    return None


def check_artifact(value: str) -> str:
    if _ARTIFACT.fullmatch(value) is None:
        raise refusal(
            "must be artifact://sha256/ and 64 lower-case hex digits",
            "use the address that `gpulayer put FILE` prints",
        )
    return value


def check_path(value: str) -> str:
    wrong = path_fault(value)
    if wrong is not None:
        raise refusal(wrong[0], wrong[1], slug="unsafe-path")
    return value


def word_fault(value: str) -> tuple[str, str] | None:
    """Why a process cannot be given the text as an argument or a variable's value.

    Bytes that are not UTF-8 may ride along as lone surrogates (PEP 383). A NUL ends a word for the
    kernel, so it cannot be inside one.
    """
    if "\0" in value:
        return "holds a NUL, which no process can be given", "take it out"
    if not value.isascii():
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return "is not valid text (a lone surrogate)", "write it as UTF-8"
    return None


def check_word(value: str) -> str:
    wrong = word_fault(value)
    if wrong is not None:
        raise refusal(*wrong)
    return value


def check_entrypoint(value: str) -> str:
    if len(value) > limits.ENTRYPOINT_CHARACTERS:
        raise refusal(
            f"has {len(value)} characters; up to {limits.ENTRYPOINT_CHARACTERS} are allowed",
            "shorten the module's or the function's name",
        )
    if _ENTRYPOINT.fullmatch(value) is None:
        raise refusal(
            "must be module:function: plain names (letters, digits, _), dots between packages, "
            "one colon, no __dunder__",
            'write it as "package.module:function"',
        )
    return value


def check_module(value: str) -> str:
    if len(value) > limits.ENTRYPOINT_CHARACTERS or _MODULES.fullmatch(value) is None:
        raise refusal("must be a module's name", 'write it as "package.module"')
    return value


def check_specifier(value: str) -> str:
    if len(value) > limits.SPECIFIER_CHARACTERS:
        raise refusal(
            f"has {len(value)} characters; a PEP 440 specifier may have "
            f"{limits.SPECIFIER_CHARACTERS}",
            'shorten it, such as ">=2.2,<3"',
        )
    if not _is_specifier(value):
        raise refusal(
            "is not a version specifier (PEP 440)", 'write it as ">=2.2", "==3.12.*" or ">=3.10,<4"'
        )
    return value


def check_image(value: str) -> str:
    if len(value) > limits.IMAGE_CHARACTERS or image_parts(value) is None:
        raise refusal(
            f"must be an image's reference of up to {limits.IMAGE_CHARACTERS} characters, in lower "
            "case",
            'write it as "repository/name:tag" or "repository/name@sha256:..."',
        )
    return value


def check_url(value: str) -> str:
    wrong = url_fault(value)
    if wrong is not None:
        raise refusal(*wrong)
    return value


def check_requirement(value: str) -> str:
    wrong = requirement_fault(value)
    if wrong is not None:
        raise refusal(wrong, MEND)
    return value


@functools.lru_cache(maxsize=256)
def _is_specifier(value: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(value)
    except InvalidSpecifier:
        return False
    return True


def _pattern(pattern: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", **more})


Name = Annotated[
    str,
    AfterValidator(check_name),
    _pattern(_NAME.pattern, maxLength=limits.NAME_CHARACTERS),
]
Choice = Annotated[str, AfterValidator(check_choice)]
Artifact = Annotated[str, AfterValidator(check_artifact), _pattern(_ARTIFACT.pattern)]
SafePath = Annotated[str, AfterValidator(check_path)]
Word = Annotated[str, AfterValidator(check_word)]
Entrypoint = Annotated[str, AfterValidator(check_entrypoint), _pattern(r"[A-Za-z0-9_.]+:\w+")]
Module = Annotated[str, AfterValidator(check_module)]
Specifier = Annotated[str, AfterValidator(check_specifier)]
Image = Annotated[str, AfterValidator(check_image)]
FetchUrl = Annotated[str, AfterValidator(check_url)]
Requirement = Annotated[str, AfterValidator(check_requirement)]
