"""A worker's session over its channel: renewed once, replaced without a gap, and ended for good."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gpulayer.api.session_channel import SessionChannel
from gpulayer.contracts.messages import Acquire, Register, Registered, Report, ReportReply
from gpulayer.errors import RefusedError

REPORT = Report("w", 1, 1)


class Plane:
    """Takes the sessions that are good, and says that one should be renewed."""

    def __init__(self) -> None:
        self.good = {"first"}
        self.shown = "first"
        self.says_renew = False
        self.renews = True

    def _let_in(self) -> None:
        if self.shown not in self.good:
            raise RefusedError("unauthorized", "no")

    def register(self, message: Register) -> Registered:
        self._let_in()
        return Registered(1, 30.0, 5.0)

    def report(self, message: Report) -> ReportReply:
        self._let_in()
        return ReportReply(True, 30.0, renew=self.says_renew)

    def acquire(self, message: Acquire) -> Any:
        self._let_in()

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> int:
        raise RefusedError("stale-fence", "another refusal is an answer as any other")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


class Session:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.text = "first"
        self.renewals = 0
        self.done = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def current(self) -> str:
        self.plane.shown = self.text
        return self.text

    def renew(self) -> None:
        self.renewals += 1
        self.may_go_on.wait(30)
        if not self.plane.renews:
            raise RefusedError("unauthorized", "no")
        self.plane.good.add("second")
        self.text = "second"
        self.done.set()


class Desk:
    def __init__(self) -> None:
        self.plane = Plane()
        self.session = Session(self.plane)
        self.refusals: list[RefusedError] = []
        self.registrations = 0
        self.channel = SessionChannel(
            self.plane,
            self.session,
            registered=self._registered,
            refused=self.refusals.append,
        )

    def _registered(self) -> None:
        self.registrations += 1


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_session_that_is_due_is_renewed_beside_the_reports(desk: Desk) -> None:
    desk.plane.says_renew = True
    desk.session.may_go_on.clear()
    for _ in range(3):
        desk.channel.report(REPORT)  # none of them waits for the renewal
    desk.session.may_go_on.set()
    assert desk.session.done.wait(30)
    assert desk.session.renewals == 1
    desk.plane.says_renew = False
    desk.channel.report(REPORT)
    assert desk.plane.shown == "second"


def test_a_call_that_was_held_over_the_change_is_made_again(desk: Desk) -> None:
    """The plane ends it, since its session was replaced while it was parked."""

    def while_parked(message: Acquire) -> Any:
        desk.session.renew()
        desk.plane.good = {"second"}
        raise RefusedError("unauthorized", "the session was replaced")

    desk.plane.acquire = while_parked  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        desk.channel.acquire(Acquire("w", 1, 20.0, 1))
    assert desk.refusals == []
    desk.channel.report(REPORT)


def test_a_session_that_expired_while_the_machine_was_off_is_renewed(desk: Desk) -> None:
    desk.plane.good.clear()
    with pytest.raises(ConnectionError):  # as a call that was lost: the agent registers again
        desk.channel.report(REPORT)
    assert desk.channel.report(REPORT).ok
    assert (desk.session.renewals, desk.refusals) == (1, [])


def test_a_renewal_that_is_lost_is_asked_for_again(desk: Desk) -> None:
    desk.plane.good.clear()
    renew = desk.session.renew

    def lost() -> None:
        desk.session.renew = renew  # type: ignore[method-assign]
        raise ConnectionError("no plane")

    desk.session.renew = lost  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(ConnectionError):
            desk.channel.report(REPORT)
    assert desk.channel.report(REPORT).ok
    assert desk.refusals == []


def test_one_that_another_machine_goes_on_with_is_not_renewed(desk: Desk) -> None:
    def replaced(message: Register) -> Registered:
        raise RefusedError("worker-replaced", "another machine works by its name")

    desk.plane.register = replaced  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        desk.channel.register(Register("w", "w", "n", "remote", {}))
    assert desk.session.renewals == 0
    assert [error.code for error in desk.refusals] == ["worker-replaced"]


def test_a_session_that_is_refused_is_over_and_said_once(desk: Desk) -> None:
    desk.plane.good.clear()
    desk.plane.renews = False
    for _ in range(3):
        with pytest.raises(ConnectionError):
            desk.channel.report(REPORT)
    assert [error.code for error in desk.refusals] == ["unauthorized"]


def test_other_refusals_are_the_planes_answers(desk: Desk) -> None:
    with pytest.raises(RefusedError) as refused:
        desk.channel.append_log("t1", 1, 0, b"")
    assert refused.value.code == "stale-fence"
    assert desk.refusals == []


def test_each_registration_is_told(desk: Desk) -> None:
    message = Register("w", "w", "n", "remote", {})
    desk.channel.register(message)
    desk.channel.register(message)
    assert desk.registrations == 2
    desk.plane.good.clear()
    desk.plane.renews = False
    with pytest.raises(ConnectionError):
        desk.channel.register(message)
    assert desk.registrations == 2
