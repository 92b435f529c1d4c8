"""A job from a JSON or YAML file, with the line of everything that is wrong with it.

The name decides: `.json` is JSON, `.yaml` and `.yml` are YAML; else a text that begins with `{` is
JSON. A `$schema` at the top is for editors and not part of the job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpulayer.contracts import limits
from gpulayer.contracts.jobspec import JobSpec, validate_spec
from gpulayer.contracts.json_file import read_json
from gpulayer.contracts.problems import problems_in, spec_error
from gpulayer.contracts.reading import BrokenFileError, Reading, SourceMap
from gpulayer.contracts.yaml_file import read_yaml
from gpulayer.errors import Problem, SpecError


def load_jobfile(text: str, filename: str) -> tuple[dict[str, Any], SourceMap]:
    """The file's object, not validated, and its lines. A `SpecError` if it cannot be read, holds
    something else than an object, or gives a key twice."""
    reading = _read(text, filename)
    if not reading.problems and not isinstance(reading.value, dict):
        reading.problems += [problem for _, problem in problems_in(JobSpec, reading.value)]
    if reading.problems:
        raise spec_error(reading.problems, filename)
    return reading.value, SourceMap(reading.lines)


def validate_jobfile(text: str, filename: str) -> JobSpec:
    """The spec, or a `SpecError` with every problem of the file in the order of its lines."""
    reading = _read(text, filename)
    source = SourceMap(reading.lines)
    problems = reading.problems + [
        replace(problem, line=source.line(path))
        for path, problem in problems_in(JobSpec, reading.value)
    ]
    if problems:
        raise spec_error(sorted(problems, key=lambda problem: problem.line or 0), filename)
    try:
        return validate_spec(reading.value)
    except SpecError as refused:
        raise spec_error(refused.problems, filename) from None


def _read(text: str, filename: str) -> Reading:
    text = text.removeprefix("\ufeff")
    try:
        if len(text) > limits.FILE_BYTES:
            raise BrokenFileError(f"is larger than {limits.FILE_BYTES} bytes", 1)
        reading = read_json(text) if _is_json(text, filename) else read_yaml(text)
    except BrokenFileError as broken:
        problem = Problem(
            "", "the file " + broken.message, broken.mend, broken.line, "invalid-file"
        )
        raise spec_error([problem], filename) from None
    if isinstance(reading.value, dict):
        reading.value.pop("$schema", None)
    return reading


def _is_json(text: str, filename: str) -> bool:
    name = filename.lower()
    if name.endswith((".json", ".yaml", ".yml")):
        return name.endswith(".json")
    return text.lstrip().startswith("{")
