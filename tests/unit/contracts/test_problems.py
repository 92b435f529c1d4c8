"""A refusal lists everything at once, in words that mend."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts import validate_spec
from gpulayer.contracts.problems import dotted
from gpulayer.errors import SpecError
from gpulayer.slugs import error_from_json
from tests.unit.contracts.specs import ARTIFACT, command, distributed, only_problem, refusal


def test_rules_over_several_fields_are_tried_although_one_field_is_wrong() -> None:
    refused = refusal(
        {
            "name": "my job",
            "workload": {"kind": "distributed", "entrypoint": "t.py", "comm_backend": "nccl",
                         "sauce": 1},
            "resources": {"gpu_cout": 2, "gpu_count": 1},
            "retry": {"max_attempts": 3},
            "env": {"RANK": "0", "X": 5},
            "inputs": [{"artifact": ARTIFACT, "path": "a"}, {"artifact": ARTIFACT, "path": "../x"}],
        }
    )  # fmt: skip
    assert {problem.field for problem in refused.problems} == {
        "name",
        "workload.sauce",
        "workload.comm_backend",
        "resources.gpu_cout",
        "resources.gpu_count",
        "retry.max_attempts",
        "env.RANK",
        "env.X",
        "inputs[1].path",
    }


def test_a_rule_is_not_believed_when_a_field_that_it_looks_at_is_wrong() -> None:
    wrong_accelerator = command(resources={"accelerator": "cudaa", "gpu_count": 2})
    assert only_problem(wrong_accelerator).field == "resources.accelerator"
    wrong_profile = distributed({"comm_backend": "nccl"}, resources={"profile": "pytorch-cud"})
    assert only_problem(wrong_profile).field == "resources.profile"


def test_without_a_workload_the_rest_is_checked_all_the_same() -> None:
    refused = refusal({"resources": {"gpu_count": 1}, "secrets": [{}]})
    assert [p.field for p in refused.problems] == [
        "workload",
        "resources.gpu_count",
        "secrets[0].name",
    ]


def test_the_items_of_a_list_keep_their_numbers() -> None:
    inputs = [{"artifact": "x", "path": "a"}, {"artifact": ARTIFACT, "path": "b"}, {"path": "c"}]
    assert [p.field for p in refusal(command(inputs=inputs)).problems] == [
        "inputs[0].artifact",
        "inputs[2].artifact",
    ]


@pytest.mark.parametrize(
    ("data", "mend"),
    [
        (command(resources={"gpu_cout": 1}), "did you mean gpu_count?"),
        (command(resources={"gpus": 1}), "did you mean gpu_count?"),
        (command(gpu_count=1), "did you mean resources.gpu_count?"),
        (command(timeout=1), "did you mean timeout_seconds?"),
        (command(retries=1), "did you mean retry.max_attempts?"),
        (command(nam="x"), "did you mean name?"),
        (command(environment={"env": {"A": "1"}}), "did you mean env of the job itself?"),
        (command(zzz="x"), "take it out"),
        (command(retry={"zzz": 1}), "known here: max_attempts, retry_on"),
        (command(inputs=[{"artifact": ARTIFACT, "path": "a", "pth": 1}]), "did you mean path?"),
        (distributed({"num_worker": 2}), "did you mean num_workers?"),
        (distributed({"rendezvous": {"prt": 2000}}), "did you mean port?"),
    ],
)
def test_an_unknown_field_comes_with_the_likeliest_one(data: Any, mend: str) -> None:
    problem = only_problem(data)
    assert (problem.slug, problem.mend) == ("unknown-field", mend)
    assert problem.message == "is not a field of JobSpec v1alpha1"


def test_one_problem_is_one_sentence_with_its_mend_and_a_command() -> None:
    refused = refusal(command(resources={"gpu_cout": 2}))
    assert refused.code == "unknown-field"
    assert str(refused) == "resources.gpu_cout is not a field of JobSpec v1alpha1"
    assert refused.why == "did you mean gpu_count?"
    assert refused.help == ("gpulayer schema resources",)


def test_several_problems_are_listed_each_with_its_mend() -> None:
    refused = refusal(command(name="my job", timeout_seconds="60"))
    assert str(refused) == (
        "2 problems\n"
        '  name "my job" may hold letters, digits, _ . - only (write "my-job")\n'
        '  timeout_seconds must be a number, not text "60" (write 60 without quotes)'
    )


def test_the_code_is_the_first_problem_s() -> None:
    assert refusal(command(outputs=["../x"], reuse="y")).code == "unsafe-path"


def test_a_refusal_survives_the_wire() -> None:
    refused = refusal(command(outputs=["../x"]))
    again = error_from_json(refused.to_json())
    assert isinstance(again, SpecError)
    assert (again.code, again.problems, str(again)) == (
        refused.code,
        refused.problems,
        str(refused),
    )


@pytest.mark.parametrize("value", ["\x1b]0;x\x07", "a\r\nerror[x]: y", "\u202egnp", "x" * 5000])
def test_hostile_text_is_shown_escaped_and_cut(value: str) -> None:
    for data in (
        command(name=value),
        command(outputs=["/" + value]),
        command(env={value + "=": "1"}),
        command(labels={value: "1"}),
        command(cache=value),
        command(**{value: 1}),
        command(resources={"accelerator": value}),
        {"workload": {"kind": value}},
    ):
        text = str(refusal(data))
        assert text.isprintable()
        assert len(text) < 400


def test_a_key_that_could_be_misread_is_quoted() -> None:
    assert dotted(("inputs", 1, "path")) == "inputs[1].path"
    assert dotted(("env", "A=B")) == 'env["A=B"]'
    assert dotted(("resources", "frameworks", "torch.cuda")) == 'resources.frameworks["torch.cuda"]'


@pytest.mark.parametrize("data", [None, [], "x", 5, {1: 2}, {"workload": None}])
def test_what_is_no_job_at_all_is_refused_plainly(data: Any) -> None:
    with pytest.raises(SpecError):
        validate_spec(data)


def test_a_cycle_is_refused_and_not_followed() -> None:
    loop: list[Any] = []
    loop.append(loop)
    spec = {"workload": {"kind": "function", "entrypoint": "m:f", "args": loop}}
    assert "nested deeper" in only_problem(spec).message
