"""A program that is interrupted while it submits: no job goes on that it has no handle of."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpulayer.api.direct import Direct
from gpulayer.api.handlers import Handlers
from gpulayer.errors import UsageError
from gpulayer.sdk.accepting import accepted
from tests.support.env import Env
from tests.support.served_plane import Host


class Interrupted:
    """A way to the plane on which Ctrl-C comes at the `nth` request, before it is sent or before
    its answer is read."""

    def __init__(self, env: Env, nth: int, *, is_heard: bool) -> None:
        handlers = Handlers(env.plane, env.artifacts, Host(f"{env.folder}/artifacts"))
        self._plane = Direct(handlers)
        self._left, self._is_heard = nth, is_heard
        self.paths: list[str] = []

    def __call__(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        self.paths.append(path)
        self._left -= 1
        if not self._left and not self._is_heard:
            signal.raise_signal(signal.SIGINT)
        answer = self._plane.call(method, path, body)
        if not self._left:
            signal.raise_signal(signal.SIGINT)
        return answer


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Raises KeyboardInterrupt, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def env() -> Iterator[Env]:
    with Env() as env:
        yield env


def batches(env: Env, count: int, size: int = 2) -> list[dict[str, Any]]:
    return [
        {"jobs": [{"spec": env.spec(), "idempotency_key": f"{n}-{m}"} for m in range(size)]}
        for n in range(count)
    ]


@pytest.mark.parametrize("is_heard", [True, False], ids=["accepted", "not sent"])
def test_nothing_is_left_of_a_submission_that_is_interrupted(env: Env, is_heard: bool) -> None:
    call = Interrupted(env, 2, is_heard=is_heard)
    with pytest.raises(KeyboardInterrupt):
        accepted(call, batches(env, 3), lambda answer: None)
    jobs = env.plane.jobs(ended=True)
    assert [job["state"] for job in jobs] == ["cancelled"] * 4
    assert call.paths == ["/v1/jobs/batch"] * 3 + ["/v1/jobs/cancel"]


def test_an_interrupt_between_answer_and_handle_is_one_too(env: Env) -> None:
    def tell(answer: Mapping[str, Any]) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        accepted(Interrupted(env, 0, is_heard=True), batches(env, 1), tell)
    assert [job["state"] for job in env.plane.jobs(ended=True)] == ["cancelled"] * 2


def test_a_second_interrupt_ends_the_calling_off(env: Env) -> None:
    call = Interrupted(env, 1, is_heard=False)

    def again(method: str, path: str, body: Mapping[str, Any]) -> Any:
        if call.paths:
            signal.raise_signal(signal.SIGINT)
        return call(method, path, body)

    with pytest.raises(KeyboardInterrupt):
        accepted(again, batches(env, 1), lambda answer: None)
    assert call.paths == ["/v1/jobs/batch"]


def test_what_is_refused_is_not_asked_again(env: Env) -> None:
    call = Interrupted(env, 0, is_heard=True)
    bad = {"jobs": [{"spec": {"workload": {"kind": "nonsense"}}}]}
    with pytest.raises(UsageError):
        accepted(call, [*batches(env, 1), bad], lambda answer: None)
    assert call.paths == ["/v1/jobs/batch"] * 2
    assert [job["state"] for job in env.plane.jobs()] == ["queued"] * 2
