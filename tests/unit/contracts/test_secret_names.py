"""Names of secrets that workers give: what may be one, what older workers mean, what is refused."""

from __future__ import annotations

import pytest

from gpulayer.contracts import limits
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.secret_names import ANY, is_name, offered, wanted
from gpulayer.errors import UsageError
from tests.unit.contracts.test_data_sets import capabilities

HOSTILE = ["", "a/b", "../x", "a b", "a\n", "a\0", "\x1b[31m", "\u202e", "é", "a=b", "1a", "-a",
           "GPULAYER_TOKEN", "RANK", "**", "x" * 129]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_and_told_without_harm(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(UsageError) as refused:
        WorkerCapabilities.from_json(capabilities(secrets=[name]))
    assert refused.value.message.isprintable()


def test_what_a_worker_gives_is_in_order_and_bounded() -> None:
    given = WorkerCapabilities.from_json(capabilities(secrets=["b", "a", "b"])).secrets
    assert given == ("a", "b")
    assert len(offered(f"s{n}" for n in range(limits.CHOICES))) == limits.CHOICES
    with pytest.raises(UsageError):
        offered(f"s{n}" for n in range(limits.CHOICES + 1))


def test_an_older_worker_is_asked_for_any_and_one_that_does_not_know_is_believed() -> None:
    assert WorkerCapabilities.from_json(capabilities()).secrets == (ANY,)
    unknown = WorkerCapabilities.from_json(capabilities(secrets=None))
    assert unknown.secrets is None
    assert WorkerCapabilities.from_json(unknown.to_json()) == unknown


def test_a_secret_is_called_by_its_key_or_else_by_its_name() -> None:
    assert wanted({"name": "HF", "key": "hf"}) == "hf"
    assert wanted({"name": "HF", "key": ""}) == wanted({"name": "HF"}) == "HF"
