"""A served plane: who gets in, what they may do, and what goes on beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpulayer.api import credentials
from gpulayer.api.endpoints import Far, parse
from gpulayer.api.wire import Wire
from gpulayer.contracts.principals import CredentialKind
from gpulayer.errors import GPULayerError
from tests.support.local_home import SECONDS
from tests.support.served import IDS, Served

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as served:
        yield served


def refused(wire: Wire, method: str, path: str, body: dict[str, object] | None = None) -> str:
    """The slug of the refusal."""
    with pytest.raises(GPULayerError) as caught:
        wire.call(method, path, body)
    return caught.value.code


def test_what_it_prints_is_what_join_and_login_read(served: Served) -> None:
    for line in (served.join, served.login):
        address = parse(line)
        assert address.endpoint == served.endpoint
        assert address.code
    assert served.admin.call("GET", "/v1/doctor")["serves"]["fingerprint"] == served.endpoint.pin


def test_without_a_token_there_is_nothing_to_see(served: Served) -> None:
    for path in ("/v1/jobs", "/v1/version", "/v1/workers", "/v1/tokens"):
        assert refused(served.bearer(None), "GET", path) == "unauthorized"


def test_a_person_and_a_worker_come_in_with_the_printed_lines(served: Served) -> None:
    for line, kind in ((served.login, "client"), (served.join, "worker")):
        secret = credentials.make(CredentialKind(kind), IDS)
        body = {"code": parse(line).code, "token": secret.reveal(), "name": f"lab-{kind}"}
        made = served.bearer(None).call("POST", "/v1/enrol", body)
        assert made["kind"] == kind
        again = served.bearer(None).call("POST", "/v1/enrol", body)
        assert again["id"] == made["id"]  # the answer was lost: the same secret, the same right
        other = {**body, "token": credentials.make(CredentialKind(kind), IDS).reveal()}
        assert refused(served.bearer(None), "POST", "/v1/enrol", other) == "unauthorized"
        expected = "not-allowed" if kind == "worker" else ""
        wire = served.bearer(secret.reveal())
        if expected:
            assert refused(wire, "GET", "/v1/jobs") == expected
        else:
            assert wire.call("GET", "/v1/jobs") == {"jobs": []}


def test_a_job_of_another_is_seen_and_not_touched(served: Served) -> None:
    spec = {"name": "far", "workload": {"kind": "command", "command": ["true"]}}
    job = served.client("submitter").call("POST", "/v1/jobs", {"spec": spec})
    other = served.client("submitter")
    assert other.call("GET", f"/v1/jobs/{job['id']}")["owner"] == job["owner"]
    assert refused(other, "POST", f"/v1/jobs/{job['id']}/cancel", {}) == "not-allowed"
    assert refused(served.client("viewer"), "POST", "/v1/jobs", {"spec": spec}) == "not-allowed"
    served.client("operator").call("POST", f"/v1/jobs/{job['id']}/cancel", {})


def test_the_machine_itself_works_as_before(served: Served) -> None:
    assert served.run("echo", "here", check=0).stdout == b"here\n"
    served.until(lambda: served.processes() == ["agent", "plane", "supervisor"])


def test_another_fingerprint_is_not_spoken_to(served: Served) -> None:
    wrong = Far(served.endpoint.name, served.endpoint.port, "0" * 64)
    assert refused(Wire(wrong, tries=1), "GET", "/v1/jobs") == "tls-untrusted"


def test_a_taken_port_is_named_and_nothing_is_touched(served: Served) -> None:
    with Served(f"--listen={served.said['address']}") as other:
        assert other.said["error"]["code"] == "port-in-use"
        assert other.process.wait(SECONDS) == 1
        assert other.processes() == []


def test_a_name_is_another_workers_until_its_session_is_shown(served: Served) -> None:
    name, session = served.enrolled("twin")
    secret = credentials.make(CredentialKind.WORKER, IDS).reveal()
    body = {"code": served.invite(uses=3), "token": secret, "name": name}
    nobody = served.bearer(None)
    assert refused(nobody, "POST", "/v1/enrol", body) == "name-taken"
    stranger = credentials.make(CredentialKind.WORKER, IDS).reveal()
    assert refused(nobody, "POST", "/v1/enrol", {**body, "previous": stranger}) == "name-taken"
    assert nobody.call("POST", "/v1/enrol", {**body, "previous": session})["worker"] == name
    register = {"worker_id": name}
    assert refused(served.bearer(session), "POST", "/v1/worker/register", register) == (
        "unauthorized"
    )
    third = credentials.make(CredentialKind.WORKER, IDS).reveal()
    other = {**body, "token": third, "may_rename": True}
    assert nobody.call("POST", "/v1/enrol", other)["worker"] == "twin-2"


def test_a_revoked_token_is_refused_at_once(served: Served) -> None:
    token = served.token("viewer")
    wire = served.bearer(token)
    wire.call("GET", "/v1/jobs")
    served.admin.call("DELETE", f"/v1/tokens/{token.split('_')[1]}")
    assert refused(wire, "GET", "/v1/jobs") == "unauthorized"
    assert refused(served.admin, "DELETE", "/v1/tokens/nobody") == "token-not-found"
