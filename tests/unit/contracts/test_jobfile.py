"""Job files: JSON and YAML, all problems at once, each with its line."""

from __future__ import annotations

import json

import pytest

from gpulayer.contracts import load_jobfile, spec_to_json, validate_jobfile, validate_spec
from gpulayer.errors import SpecError
from tests.unit.contracts.specs import command

JSON = """{
  "name": "my job",
  "workload": {
    "kind": "command",
    "command": ["python", "train.py"]
  },
  "resources": {
    "gpu_cout": 2,
    "memory_gb": "40"
  },
  "env": {
    "A": "1",
    "A": "2"
  },
  "outputs": [
    "a",
    "../b"
  ]
}
"""
YAML = """
# a comment
name: my job
workload:
  kind: command
  command: [python, train.py]
resources:
  gpu_cout: 2
  memory_gb: "40"
env:
  A: "1"
  A: "2"
outputs:
  - a
  - ../b
"""


def _refused(text: str, name: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        validate_jobfile(text, name)
    return caught.value


@pytest.mark.parametrize(
    ("text", "name", "lines"),
    [(JSON, "job.json", [2, 8, 9, 13, 17]), (YAML, "job.yaml", [3, 8, 9, 12, 15])],
)
def test_all_problems_come_at_once_in_the_order_of_the_file(
    text: str, name: str, lines: list[int]
) -> None:
    refused = _refused(text, name)
    assert [(p.line, p.field) for p in refused.problems] == list(
        zip(
            lines,
            ["name", "resources.gpu_cout", "resources.memory_gb", "env.A", "outputs[1]"],
            strict=True,
        )
    )
    assert refused.message == f"5 problems in {name}"
    assert f"\n  line {lines[1]}: resources.gpu_cout is not a field of JobSpec" in str(refused)


def test_one_problem_reads_as_one_line() -> None:
    text = json.dumps(command(resources={"gpu_cout": 1}), indent=1)
    assert str(_refused(text, "job.json")) == (
        "job.json:10: resources.gpu_cout is not a field of JobSpec v1alpha1"
    )


def test_a_missing_field_has_the_line_of_the_object_that_lacks_it() -> None:
    text = '{\n"workload": {"kind": "command", "command": ["a"]},\n"inputs": [\n{"path": "a"}\n]}'
    assert [(p.line, p.field) for p in _refused(text, "j.json").problems] == [
        (4, "inputs[0].artifact")
    ]


def test_the_same_job_in_both_languages_is_the_same() -> None:
    yaml = """
name: t
workload: {kind: function, entrypoint: "m:f", args: [1, -2.5, 1e3, true, null, ~, "", x]}
resources:
  accelerator: cuda
  frameworks: {torch: ">=2.2"}
"""
    spec = {
        "name": "t",
        "workload": {
            "kind": "function",
            "entrypoint": "m:f",
            "args": [1, -2.5, 1e3, True, None, None, "", "x"],
        },
        "resources": {"accelerator": "cuda", "frameworks": {"torch": ">=2.2"}},
    }
    assert validate_jobfile(yaml, "job.yaml") == validate_spec(spec)
    assert validate_jobfile(json.dumps(spec), "job.json") == validate_spec(spec)
    assert spec_to_json(validate_jobfile(yaml, "job.yaml")) == spec


@pytest.mark.parametrize(
    "word",
    "yes no on off True NULL 010 1:30 0x1F 1_000 2001-01-01 .inf .nan +1 = 1. \u0661".split(),
)
def test_a_plain_word_of_yaml_is_what_it_would_be_in_json_or_text(word: str) -> None:
    text = f"workload: {{kind: command, command: [echo, {word}]}}\nenv: {{A: {word}}}"
    spec = validate_jobfile(text, "job.yaml")
    assert spec_to_json(spec)["workload"]["command"] == ["echo", word]
    assert spec.env == {"A": word}


def test_a_key_of_yaml_is_always_text() -> None:
    text = """
workload: {kind: distributed, entrypoint: t.py}
resume: {max_restarts: 1, on: [failed]}
labels: {1: one, no: two, null: three}
"""
    spec = validate_jobfile(text, "job.yaml")
    assert spec.resume is not None
    assert spec.resume.on == ["failed"]
    assert spec.labels == {"1": "one", "no": "two", "null": "three"}


@pytest.mark.parametrize("name", ["job.json", "JOB.JSON", "-", "job"])
def test_json_is_told_by_its_name_or_its_first_sign(name: str) -> None:
    tabs = '\ufeff{\n\t"workload": {"kind": "command", "command": ["\\ud83d\\ude00"]}}'
    assert spec_to_json(validate_jobfile(tabs, name))["workload"]["command"] == ["\U0001f600"]


def test_an_alias_stands_for_its_value() -> None:
    text = "env: &e {A: x}\nlabels: *e\nworkload: {kind: command, command: [a]}"
    assert validate_jobfile(text, "job.yaml").labels == {"A": "x"}


def test_an_editor_s_schema_line_is_not_part_of_the_job() -> None:
    data, lines = load_jobfile('{"$schema": "jobspec.schema.json",\n"name": "a"}', "job.json")
    assert data == {"name": "a"}
    assert lines.line(("name",)) == 2
    assert lines.line(("name", "beyond")) == 2


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "name", "line", "says"),
    [
        ('{"a": 1,\n}', "a.json", 2, "a key in double quotes"),
        ('{"a": [1,\n]}', "a.json", 2, "not JSON"),
        ('{"a": 1\n"b": 2}', "a.json", 2, "a , is missing"),
        ('{"a"\n1}', "a.json", 2, "a : is missing"),
        ('{"a": NaN}', "a.json", 1, "NaN"),
        ('{"a": -Infinity}', "a.json", 1, "Infinity"),
        ('{"a": nul}', "a.json", 1, "not JSON"),
        ('{"a": "x\ny"}', "a.json", 1, "not JSON"),
        ('{"a": "x', "a.json", 1, "not JSON"),
        ('{"a": 1', "a.json", 1, "missing"),
        ('{"a": ' + "9" * 5000 + "}", "a.json", 1, "not JSON"),
        ("", "a.json", 1, "not JSON"),
        ("{}\n{}", "a.json", 2, "more after the end"),
        ("// no\n{}", "a.json", 1, "not JSON"),
        ("[" * 100_000, "a.json", 1, "nested deeper"),
        ("a: b: c", "a.yaml", 1, "not YAML"),
        ("a: 1\n\tb: 2", "a.yaml", 2, "not YAML"),
        ("a: 1\nb: \x1b", "a.yaml", 2, "control character"),
        ("a: [1, 2", "a.yaml", 1, "not YAML"),
        ("a: 1\n---\nb: 2", "a.yaml", 2, "second document"),
        ("a: &x [*x]", "a.yaml", 1, "alias"),
        ("a: *x", "a.yaml", 1, "alias"),
        ("[a]: 1", "a.yaml", 1, "key that is not text"),
        ("[" * 100_000, "a.yaml", 1, "nest"),
        (BOMB, "a.yaml", 5, "values"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(text: str, name: str, line: int, says: str) -> None:
    refused = _refused(text, name)
    assert refused.code == "invalid-file"
    assert refused.problems[0].line == line
    assert says in str(refused)


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!mine", "!!int", "!!set"])
def test_a_tag_of_yaml_makes_nothing(tag: str) -> None:
    refused = _refused(f"name: {tag} x\nworkload: {{kind: command, command: [a]}}", "job.yaml")
    assert [(p.field, p.line, p.slug) for p in refused.problems] == [("name", 1, "invalid-file")]


def test_a_file_without_a_job_is_refused() -> None:
    for text, name in (("", "a.yaml"), ("[]", "a.json"), ("x", "a.yaml"), ("# only", "a.yml")):
        with pytest.raises(SpecError, match="must be an object"):
            load_jobfile(text, name)


def test_a_job_past_its_size_names_the_file() -> None:
    text = json.dumps(
        {"workload": {"kind": "function", "entrypoint": "m:f", "args": ["x" * 300_000]}}
    )
    assert str(_refused(text, "big.json")).startswith("big.json: the job has 300")
