"""From pydantic's errors to what people read: every problem of a spec, in plain words.

Pydantic does not try a rule that looks at several fields while one of them is wrong. So what is
wrong is taken out and the rest is tried again, and a rule that looked at what was taken out is not
believed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from gpulayer.contracts import limits
from gpulayer.contracts.problem_names import fields_at, nearest
from gpulayer.contracts.problem_words import quoted, sentence
from gpulayer.errors import Problem, SpecError

Path = tuple[str | int, ...]

_KINDS = ("command", "function", "distributed")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]{1,80}", re.ASCII)
_ROUNDS = 4


def problems_in(model: type[BaseModel], data: Any) -> list[tuple[Path, Problem]]:
    """All that is wrong with the data, each with its place. Empty when the data is valid. Past
    `limits.PROBLEMS` it stops: so much is not a slip of the pen."""
    found: list[tuple[Path, Problem]] = []
    gone: set[str] = set()
    for _ in range(_ROUNDS):
        try:
            model.model_validate(data)
        except ValidationError as refused:
            all_errors = refused.errors(include_url=False)
            errors = [(_path(error["loc"]), error) for error in all_errors[: limits.PROBLEMS + 1]]
        else:
            break
        for path, error in errors:
            about = (dotted(path), *error.get("ctx", {}).get("about", ()))
            if not any(_touch(field, other) for field in about for other in gone):
                found.append((path, _problem(model, path, error, data)))
        if not isinstance(data, Mapping) or len(found) > limits.PROBLEMS:
            break
        for path, error in errors:
            data, taken = _without(data, path, error["type"])
            gone.add(dotted(taken))
    return found


def spec_error(problems: Sequence[Problem], file: str = "", *, hint: str = "") -> SpecError:
    """One error for all problems, of which at least one is given. It lists `limits.PROBLEMS`.
    `hint`: of a file that is not a job."""
    first, shown = problems[0], problems[: limits.PROBLEMS]
    why = ""
    if len(problems) > 1:
        more = "more than " if len(problems) > len(shown) else ""
        message = f"{more}{len(shown)} problems" + (f" in {file}" if file else "")
    else:
        message = f"{first.field} {first.message}".lstrip()
        if file:
            message = f"{file}:{first.line}: {message}" if first.line else f"{file}: {message}"
        why = first.mend
    parts = {re.split(r"[.\[]", problem.field)[0] for problem in shown}
    is_inside = len(parts) == 1 and first.field not in parts
    hint = hint or (f"gpulayer schema {parts.pop()}" if is_inside else "gpulayer schema")
    return SpecError(first.slug, message, why=why, problems=shown, hint=hint)


def dotted(path: Path) -> str:
    """`inputs[1].path`; a key with other signs is quoted and escaped: `env["A=B"]`."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        elif isinstance(step, str):
            text += f"[{quoted(step)}]"
        else:
            text += f"[{step}]"
    return text


def too_large(size: int) -> Problem:
    return Problem(
        "",
        f"the job has {size} bytes; up to {limits.SPEC_BYTES} are allowed",
        "put large values into files and stage them as inputs",
    )


def _problem(model: type[BaseModel], path: Path, error: Any, data: Any) -> Problem:
    where = dotted(path)
    if error["type"] == "extra_forbidden":
        mend = _meant(model, path, data)
        return Problem(where, "is not a field of JobSpec v1alpha1", mend, slug="unknown-field")
    context = error.get("ctx", {})
    if "mend" in context:
        value = error.get("input")
        told = f"{quoted(value)} " if isinstance(value, str) and value else ""
        return Problem(where, told + context["message"], context["mend"], slug=error["type"])
    message, mend = sentence(error, secret=path[:1] == ("env",))
    return Problem(where, message if where else f"the job {message}", mend)


def _meant(model: type[BaseModel], path: Path, data: Any) -> str:
    name = nearest(model, path, data)
    if name is not None:
        return f"did you mean {name}?"
    known = fields_at(model, path[:-1], data)
    return f"known here: {', '.join(known)}" if len(known) <= 10 else "take it out"


def _path(loc: Sequence[str | int]) -> Path:
    """Pydantic's place without its own steps: a union's tag, and the mark of a key."""
    steps = [step for step in loc if step != "[key]"]
    if len(steps) > 1 and steps[0] == "workload" and steps[1] in _KINDS:
        del steps[1]
    return tuple(steps)


def _touch(one: str, other: str) -> bool:
    """Whether two dotted places are the same, or one lies in the other."""
    short, long = sorted((one, other), key=len)
    return long == short or not short or long.startswith((f"{short}.", f"{short}["))


def _without(data: Mapping[str, Any], path: Path, kind: str) -> tuple[Mapping[str, Any], Path]:
    """The data without what is at the path, and the path of what was really taken: a whole list
    instead of its item, so that the others keep their numbers; the object that lacks a field."""
    taken = path[:-1] if kind == "missing" else path
    for depth, step in enumerate(taken):
        if isinstance(step, int):
            taken = taken[:depth]
            break
    if not taken or (taken == ("workload",)):
        return {**data, "workload": {"kind": "command", "command": ["true"]}}, ("workload",)
    return _cut(data, taken), taken


def _cut(data: Any, path: Path) -> Any:
    if not isinstance(data, Mapping) or path[0] not in data:
        return data
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    return {**data, path[0]: _cut(data[path[0]], path[1:])}
