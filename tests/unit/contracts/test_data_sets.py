"""Names of data sets: what may be one, where a job finds it, and what is refused."""

from __future__ import annotations

import pytest

from gpulayer.contracts import limits
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.data_sets import declared, is_name, variable
from gpulayer.contracts.jobspec import validate_spec
from gpulayer.errors import SpecError, UsageError
from tests.unit.contracts.specs import command

HOSTILE = ["", "a/b", "..\\x", "a b", "a\n", "a\0", "\x1b[31m", "\u202e", "é", "a=b", "x" * 64]


def test_a_job_finds_it_in_a_variable_of_its_name() -> None:
    assert variable("imagenet") == "GPULAYER_DATA_IMAGENET"
    assert variable("coco-2017.v1") == "GPULAYER_DATA_COCO_2017_V1"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_by_everybody(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(SpecError):
        validate_spec(command(data=[name]))
    with pytest.raises(UsageError) as refused:
        WorkerCapabilities.from_json(capabilities(data=[name]))
    assert refused.value.message.isprintable()


def test_what_a_worker_declares_is_in_order_and_bounded() -> None:
    assert WorkerCapabilities.from_json(capabilities(data=["b", "a", "b"])).data == ("a", "b")
    assert WorkerCapabilities.from_json(capabilities()).data == ()
    assert len(declared(str(n) for n in range(limits.CHOICES))) == limits.CHOICES
    with pytest.raises(UsageError):
        declared(str(n) for n in range(limits.CHOICES + 1))


@pytest.mark.parametrize("names", [["a", "a"], ["a-b", "a_b"], ["Coco", "coco"]])
def test_two_of_one_variable_are_refused_with_both_names(names: list[str]) -> None:
    with pytest.raises(SpecError) as refused:
        validate_spec(command(data=names))
    (problem,) = refused.value.problems
    assert problem.field == "data[1]"
    assert variable(names[0]) in problem.sentence()


def capabilities(**more: object) -> dict[str, object]:
    return {
        "hostname": "lab",
        "os": "linux",
        "cpu_arch": "x86_64",
        "cpu_cores": 1.0,
        **more,
    }
