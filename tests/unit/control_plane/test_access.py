"""Rights as they come, are used, renewed and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.principals import LOCAL, CredentialKind, Principal, Role
from gpulayer.control_plane.enrolment import Enrolment, Grant
from gpulayer.errors import GPULayerError
from tests.support.env import Env
from tests.support.knocking import Knocking

HOUR, DAY = 3600.0, 86_400.0


@pytest.fixture
def door() -> Iterator[Knocking]:
    with Env() as env:
        door = Knocking(env)
        yield door
        door.close()


def refusal(call: Any, *args: Any) -> GPULayerError:
    with pytest.raises(GPULayerError) as caught:
        call(*args).result(0)
    return caught.value


def kinds(door: Knocking) -> list[str]:
    return [event.kind for event in door.env.plane.audit()]


def principal(door: Knocking, token: str) -> Principal:
    from gpulayer.api.credentials import read

    return door.env.plane.authenticate(read(token).presented)


def test_a_code_lets_in_exactly_as_many_as_it_has_uses(door: Knocking) -> None:
    code = door.code(labels={"rack": "4"})
    plane = door.env.plane
    first = Enrolment(code.presented, door.made(CredentialKind.WORKER).presented, "a")
    made = plane.enrol(first).result(0)
    assert (made.worker_id, made.labels, made.role) == ("a", {"rack": "4"}, Role.WORKER)
    second = Enrolment(code.presented, door.made(CredentialKind.WORKER).presented, "b")
    assert "used up" in refusal(plane.enrol, second).why
    assert plane.enrol(first).result(0) == made  # its answer was lost, and it asks again
    assert kinds(door) == ["minted", "enrolled", "refused"]


def test_a_wrong_secret_of_a_known_code_is_noted_and_costs_no_use(door: Knocking) -> None:
    code = door.code()
    wrong = Enrolment(
        code.presented.__class__(CredentialKind.JOIN, code.presented.id, "0" * 64),
        door.made(CredentialKind.WORKER).presented,
        "a",
        address="192.0.2.9",
    )
    assert refusal(door.env.plane.enrol, wrong).code == "unauthorized"
    assert door.env.plane.audit()[-1].actor == "192.0.2.9"
    assert door.env.plane.credential(code.presented.id).uses_left == 1


def test_a_code_of_a_person_is_none_of_a_machine(door: Knocking) -> None:
    for role, kind in (("viewer", CredentialKind.WORKER), ("worker", CredentialKind.CLIENT)):
        code = door.code(role)
        wish = Enrolment(code.presented, door.made(kind).presented, "a")
        assert refusal(door.env.plane.enrol, wish).code == "unauthorized"
        assert door.env.plane.credential(code.presented.id).uses_left == 1


def test_what_has_expired_says_so_to_who_has_it(door: Knocking) -> None:
    token = door.token("viewer")
    door.env.advance(90 * DAY - 1, step=DAY)
    assert door.ask("GET", "/v1/jobs", token=token)[0] == 200
    door.env.advance(2)
    status, answer = door.ask("GET", "/v1/jobs", token=token)
    assert status == 401
    assert "expired" in answer["error"]["why"]
    code = door.code()
    door.env.advance(HOUR, step=HOUR)
    wish = Enrolment(code.presented, door.made(CredentialKind.WORKER).presented, "a")
    assert "expired" in refusal(door.env.plane.enrol, wish).why


def test_a_known_id_with_another_secret_is_unknown(door: Knocking) -> None:
    token = door.token("viewer")
    other = door.made(CredentialKind.CLIENT).reveal()
    mixed = other.split("_")
    mixed[1] = token.split("_")[1]
    from gpulayer.api.credentials import _check

    body = "_".join(mixed[:3])
    status, answer = door.ask("GET", "/v1/jobs", token=f"{body}_{_check(body)}")
    assert status == 401
    assert answer["error"]["why"] == "this plane does not know it"


def test_a_session_is_renewed_when_two_thirds_are_over_and_overlaps_once(door: Knocking) -> None:
    env, first = door.env, door.session("lab")
    me = principal(door, first)
    assert not env.plane.is_due(me)
    env.advance(16 * HOUR, step=HOUR)
    assert env.plane.is_due(me)
    lost, second = (door.made(CredentialKind.WORKER) for _ in range(2))
    env.plane.renew(me, lost.presented).result(0)
    env.plane.renew(me, second.presented).result(0)
    again = env.plane.renew(me, second.presented).result(0)
    assert again.expires_at == pytest.approx(env.clock.now() + DAY)
    assert principal(door, first).worker_id == "lab"  # until the new one is used
    with pytest.raises(GPULayerError):
        principal(door, lost.reveal())  # only one overlaps
    assert principal(door, second.reveal()).worker_id == "lab"
    with pytest.raises(GPULayerError):
        principal(door, first)


def renewed(door: Knocking, session: str, worker: str = "lab") -> tuple[int, str]:
    fresh = door.made(CredentialKind.WORKER).reveal()
    body = {"worker_id": worker, "token": fresh}
    return door.ask("POST", "/v1/worker/renew", body, token=session)[0], fresh


def test_a_worker_that_was_off_for_two_weeks_comes_back_by_itself(door: Knocking) -> None:
    session = door.session("lab", labels={"rack": "4"})
    door.env.advance(15 * DAY, step=DAY)
    door.env.plane.gc()
    hello = {"worker_id": "lab", "name": "x", "nonce": "n", "target": "local", "seq": 1}
    hello["capabilities"] = door.env.worker("facts").capabilities.to_json()
    status, told = door.ask("POST", "/v1/worker/register", hello, token=session)
    assert (status, told["error"]["why"]) == (401, "it expired 14 d ago")
    assert renewed(door, session, "other")[0] == 403
    (status, lost), (again, fresh) = renewed(door, session), renewed(door, session)
    assert (status, again) == (200, 200)
    assert door.ask("POST", "/v1/worker/register", hello, token=fresh)[0] == 200
    (lab,) = (w for w in door.env.plane.workers() if w["id"] == "lab")
    assert (lab["name"], lab["labels"]) == ("lab", {"rack": "4"})
    for old in (session, lost):
        assert door.ask("POST", "/v1/worker/register", hello, token=old)[0] == 401
        assert renewed(door, old)[0] == 401, "one that another has followed is over"
    stored = {row.digest for row in door.env.plane.credentials()}
    assert not stored & {session, fresh, lost}
    door.env.clock.advance(16 * HOUR)
    assert door.env.plane.is_due(principal(door, fresh))


def test_it_does_not_for_ever_nor_when_it_was_sent_away(door: Knocking) -> None:
    late, banned = door.session("late"), door.session("banned")
    door.env.clock.advance(2 * DAY)
    door.env.worker("banned")
    door.env.plane.revoke_worker(WorkerId("banned"), LOCAL).result(0)
    assert renewed(door, banned, "banned")[0] == 401
    door.env.clock.advance(29 * DAY - 1)
    assert renewed(door, late, "late")[0] == 200
    door.env.clock.advance(1)
    assert renewed(door, late, "late")[0] == 401


def test_nothing_but_a_workers_session_is_renewed_after_its_end(door: Knocking) -> None:
    token = door.token("admin")
    door.env.clock.advance(91 * DAY)
    assert renewed(door, token)[0] == 401


def test_a_session_that_is_revoked_while_it_is_renewed_has_no_successor(door: Knocking) -> None:
    session = door.session("lab")
    me = principal(door, session)
    door.env.plane.revoke_worker(WorkerId("lab"), LOCAL).result(0)
    fresh = door.made(CredentialKind.WORKER).presented
    assert refusal(door.env.plane.renew, me, fresh).code == "unauthorized"


def test_a_report_says_that_it_is_time_to_renew(door: Knocking) -> None:
    session = door.session("lab")
    facts = door.env.worker("facts").capabilities.to_json()
    hello = {"worker_id": "lab", "name": "x", "nonce": "n", "target": "local", "seq": 1}
    _, told = door.ask(
        "POST", "/v1/worker/register", {**hello, "capabilities": facts}, token=session
    )
    beat = {"worker_id": "lab", "incarnation": told["incarnation"], "seq": 2, "inventory": []}
    assert not door.ask("POST", "/v1/worker/report", beat, token=session)[1]["renew"]
    door.env.clock.advance(16 * HOUR)
    beat["seq"] = 3
    assert door.ask("POST", "/v1/worker/report", beat, token=session)[1]["renew"]
    fresh = door.made(CredentialKind.WORKER).reveal()
    body = {"worker_id": "lab", "token": fresh}
    assert door.ask("POST", "/v1/worker/renew", body, token=session)[0] == 200
    beat["seq"] = 4
    assert not door.ask("POST", "/v1/worker/report", beat, token=fresh)[1]["renew"]
    assert door.ask("POST", "/v1/worker/report", beat, token=session)[0] == 401


def test_a_plane_that_goes_takes_its_own_worker_along_and_no_other(door: Knocking) -> None:
    session, here = door.session("lab"), door.env.worker("here")
    facts = here.capabilities.to_json()
    hello = {"worker_id": "lab", "name": "x", "nonce": "n", "target": "local", "seq": 1}
    hello["capabilities"] = facts
    told = door.ask("POST", "/v1/worker/register", hello, token=session)[1]
    asks = {"worker_id": "lab", "incarnation": told["incarnation"], "seq": 1, "park_seconds": 9.0}
    with door.held("POST", "/v1/worker/acquire", asks, token=session) as answer:
        door.env.plane.leave()
        assert (answer()[1]["leave"], answer()[1]["ok"]) == (False, False)
    assert here.acquire().leave


def test_an_embedded_plane_takes_no_word_of_another_agent() -> None:
    """One that was killed may have registered in the backlog of the listener."""
    with Env(kind="embedded") as env:
        door, own = Knocking(env), env.worker("local")
        job = env.submit()
        env.run_pass()
        own.acquire()
        own.start(job)
        late = {"worker_id": "local", "name": "x", "nonce": "late", "target": "local", "seq": 1}
        late["capabilities"] = own.capabilities.to_json()
        assert door.ask("POST", "/v1/worker/register", late, private=True)[0] == 403
        assert env.state(job) == "running"
        door.close()


def test_revoking_ends_what_is_held(door: Knocking) -> None:
    token = door.token("viewer")
    env = door.env
    job = env.submit()
    with door.held("GET", f"/v1/jobs/{job}?wait=60", None, token) as answer:
        env.plane.revoke(token.split("_")[1], LOCAL).result(0)
        status, told = answer()
    assert (status, told["error"]["code"]) == (401, "unauthorized")


def test_a_worker_has_the_name_and_labels_that_it_was_given(door: Knocking) -> None:
    session = door.session("lab", labels={"rack": "4"})
    facts = door.env.worker("facts").capabilities.to_json() | {"labels": {"rack": "9", "gold": "1"}}
    body = {"worker_id": "lab", "name": "root", "nonce": "n", "target": "local", "seq": 1}
    body["capabilities"] = facts
    told = door.ask("POST", "/v1/worker/register", body, token=session)[1]
    (lab,) = (w for w in door.env.plane.workers() if w["id"] == "lab")
    assert (lab["name"], lab["labels"]) == ("lab", {"rack": "4"})
    beat = {"worker_id": "lab", "incarnation": told["incarnation"], "seq": 2, "inventory": []}
    door.ask("POST", "/v1/worker/report", {**beat, "capabilities": facts}, token=session)
    admin = door.token("admin")
    labels = {"labels": {"gold": "2", "rack": None}}
    assert door.ask("POST", "/v1/workers/lab/label", labels, token=admin)[0] == 200
    job = door.env.submit(placement={"worker_labels": {"gold": "2"}, "target": "remote"})
    never = door.env.submit(placement={"worker_labels": {"rack": "9"}, "target": "remote"})
    door.env.run_pass()
    assert door.env.live_task(job).worker_id == "lab"
    assert door.env.state(never) == "queued"


def test_a_revoked_worker_loses_what_it_runs_and_its_name_is_free(door: Knocking) -> None:
    env, session = door.env, door.session("lab")
    lab = env.worker("lab")
    job = env.submit()
    env.run_pass()
    lab.acquire()
    lab.start(job)
    acquire = {"worker_id": "lab", "incarnation": lab.incarnation, "seq": 9, "park_seconds": 25.0}
    with door.held("POST", "/v1/worker/acquire", acquire, session) as answer:
        admin = door.token("admin")
        status, told = door.ask("POST", "/v1/workers/lab/revoke", {}, token=admin)
        assert (status, told["worker"]) == (200, "lab")
        assert answer()[0] == 401
    assert env.job(job).reason == "worker_lost"
    assert [worker["id"] for worker in env.plane.workers()] == []
    assert door.session("lab")
    assert kinds(door)[-1] == "enrolled"


def test_an_instances_token_lets_in_that_instance_once(door: Knocking) -> None:
    token = door.made(CredentialKind.INSTANCE)
    grant = Grant(Role.WORKER, name="i-1", labels={"provider": "aws"})
    door.env.plane.expect(token.presented, grant, LOCAL).result(0)
    assert door.ask("GET", "/v1/jobs", token=token.reveal())[0] == 401

    def enrol(name: str) -> int:
        session = door.made(CredentialKind.WORKER).reveal()
        body = {"code": token.reveal(), "token": session, "name": name}
        return door.ask("POST", "/v1/enrol", body)[0]

    assert [enrol("i-2"), enrol("i-1"), enrol("i-1")] == [401, 200, 401]
    assert kinds(door) == ["minted", "refused", "enrolled", "refused"]
    late = door.made(CredentialKind.INSTANCE)
    door.env.plane.expect(late.presented, Grant(Role.WORKER, name="i-3"), LOCAL).result(0)
    door.env.advance(900, step=300)
    wish = Enrolment(late.presented, door.made(CredentialKind.WORKER).presented, "i-3")
    assert "expired" in refusal(door.env.plane.enrol, wish).why


def test_a_token_without_an_end_is_good_until_it_is_revoked(door: Knocking) -> None:
    env, admin = door.env, door.token("admin")
    body = {"token": door.made(CredentialKind.CLIENT).reveal(), "name": "ci", "no_expiry": True}
    both = body | {"ttl_seconds": 60.0}
    assert door.ask("POST", "/v1/tokens", both, token=admin)[0] == 400
    status, made = door.ask("POST", "/v1/tokens", body, token=admin)
    assert (status, made["expires_at"]) == (200, None)
    assert env.plane.audit()[-1].note == "client, submitter, never expires"
    env.clock.advance(20 * 365 * DAY)
    assert principal(door, body["token"]).name == "ci"
    env.plane.gc()
    env.plane.revoke(made["id"], LOCAL).result(0)
    with pytest.raises(GPULayerError):
        principal(door, body["token"])


@pytest.mark.parametrize("role", ["viewer", "submitter", "operator", "worker"])
def test_only_an_administrator_makes_one(door: Knocking, role: str) -> None:
    token = door.session("lab") if role == "worker" else door.token(role)
    body = {"token": door.made(CredentialKind.CLIENT).reveal(), "no_expiry": True}
    assert door.ask("POST", "/v1/tokens", body, token=token)[0] == 403


@pytest.mark.parametrize(
    ("labels", "is_fine"),
    [
        ({str(n): "" for n in range(64)}, True),
        ({str(n): "" for n in range(65)}, False),
        ({"k" * 63: "v" * 255}, True),
        ({"k" * 64: ""}, False),
        ({"k": "v" * 256}, False),
        ({"": "v"}, False),
        ({"k": "\x1b[31m"}, False),
        ({"k": 1}, False),
    ],
)
def test_labels_have_limits(door: Knocking, labels: dict[str, Any], is_fine: bool) -> None:
    door.env.worker("w1")
    for path in ("/v1/workers/w1/label", "/v1/invites"):
        body = {"labels": labels, "code": door.made(CredentialKind.JOIN).reveal()}
        status, _ = door.ask("POST", path, body, token=door.token("admin"))
        assert status == (200 if is_fine else 400)


def test_the_servers_own_worker_is_not_sent_away(door: Knocking) -> None:
    door.env.worker("local")
    status, told = door.ask("POST", "/v1/workers/local/revoke", {}, token=door.token("admin"))
    assert (status, told["error"]["code"]) == (403, "not-allowed")


@pytest.mark.parametrize("role", ["viewer", "submitter", "operator", "admin"])
def test_nobody_hands_out_more_than_they_have(door: Knocking, role: str) -> None:
    me = Principal(Role(role), "me", "x")
    ranks = ["viewer", "submitter", "operator", "admin"]
    for wanted in ranks:
        token = door.made(CredentialKind.CLIENT).presented
        mint = door.env.plane.mint
        if ranks.index(wanted) <= ranks.index(role):
            assert mint(token, Grant(Role(wanted)), me).result(0).role == wanted
        else:
            with pytest.raises(GPULayerError, match="cannot make"):
                mint(token, Grant(Role(wanted)), me)


@pytest.mark.parametrize(
    ("grant", "is_fine"),
    [
        (Grant(Role.WORKER, uses=1000, seconds=DAY), True),
        (Grant(Role.WORKER, uses=1001), False),
        (Grant(Role.WORKER, uses=0), False),
        (Grant(Role.WORKER, seconds=DAY + 1), False),
        (Grant(Role.WORKER, seconds=0.0), False),
    ],
)
def test_a_code_has_limits(door: Knocking, grant: Grant, is_fine: bool) -> None:
    code = door.made(CredentialKind.JOIN).presented
    if is_fine:
        assert door.env.plane.invite(code, grant, LOCAL).result(0).uses_left == grant.uses
    else:
        with pytest.raises(GPULayerError):
            door.env.plane.invite(code, grant, LOCAL)


def test_dead_credentials_and_old_notes_are_forgotten(door: Knocking) -> None:
    token = door.token("viewer").split("_")[1]
    door.env.plane.revoke(token, LOCAL).result(0)
    door.env.advance(29 * DAY, step=DAY)
    door.env.plane.gc()
    assert door.env.plane.credential(token).revoked_at
    door.env.advance(2 * DAY, step=DAY)
    door.env.plane.gc()
    assert door.env.plane.credentials() == []
    assert kinds(door) == ["minted", "revoked"]
    door.env.advance(365 * DAY, step=30 * DAY)
    door.env.plane.gc()
    assert kinds(door) == []
