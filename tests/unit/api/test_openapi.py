"""The description of the API: valid, whole, and true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from gpulayer.api import openapi, shapes
from gpulayer.api.handlers import Handlers
from gpulayer.api.routes import ROUTES
from gpulayer.api.server import App
from gpulayer.contracts import messages
from tests.support.app import Told, ask
from tests.support.served_plane import Host, ServedPlane

EXAMPLES = 5
"""Of each operation: the whole takes a few seconds."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Of a real plane, on which nothing parks: it is about to leave."""
    folder = tmp_path_factory.mktemp("plane")
    plane = ServedPlane(folder)
    plane.plane.wakeups.close()
    try:
        yield App(Handlers(plane.plane, plane.artifacts, Host(str(folder))))
    finally:
        plane.close()


def test_it_is_what_the_standard_asks_for() -> None:
    OpenAPIV31SpecValidator(json.loads(openapi.text())).validate()


def test_every_route_is_described_and_nothing_else() -> None:
    assert set(shapes.ROUTES) == {route.name for route in ROUTES}
    told = {
        (path, method.upper())
        for path, methods in openapi.document()["paths"].items()
        for method in methods
    }
    assert told == {(route.path, route.method) for route in ROUTES}


def test_every_message_is_described() -> None:
    known = {cls for cls in vars(messages).values() if isinstance(cls, type)}
    told = {c for c in known if issubclass(c, messages.Message) and c is not messages.Message}
    assert set(shapes.MESSAGES) == told


def test_it_is_served_to_anybody_and_so_is_the_page(app: App) -> None:
    assert ask(app, "GET", "/openapi.json", is_private=False).data == openapi.text()
    page = ask(app, "GET", "/docs", is_private=False)
    assert page.headers["content-type"].startswith("text/html")
    for route in ROUTES:
        assert f"<details id={route.name}>" in page.text


def test_the_page_loads_nothing_and_its_links_lead_somewhere(app: App) -> None:
    text = ask(app, "GET", "/docs").text
    assert not re.search(r"(?i)<script|<link|<img|@import|url\(|https?://", text)
    for name in set(re.findall(r'href="#(\w+)"', text)):
        assert f"<details id={name}>" in text


def operations() -> list[Any]:
    found = schemathesis.openapi.from_dict(json.loads(openapi.text()))
    return [result.ok() for result in found.get_all_operations()]


OPERATIONS = operations()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: f"{op.method}{op.path}")
def test_what_it_describes_is_what_is_answered(app: App, operation: Any) -> None:
    """Calls that the description allows are answered as it says, and never by a fault of ours."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        told = _sent(app, case)
        assert told.status < 500 or told.status in (501, 503), told.text
        _check(operation, told)

    holds()


def _sent(app: App, case: Any) -> Told:
    prepared = requests.Request(**_kwargs(case)).prepare()
    target = prepared.path_url
    body = prepared.body or b""
    data = body.encode() if isinstance(body, str) else body
    headers = {"accept": "application/json"}
    return ask(app, prepared.method or "GET", target, data, headers=headers)


def _kwargs(case: Any) -> dict[str, Any]:
    found = case.as_transport_kwargs(base_url="http://plane")
    return {k: v for k, v in found.items() if k in ("method", "url", "params", "data", "json")}


def _check(operation: Any, told: Told) -> None:
    answer = schemathesis.Response(
        told.status,
        {name: [value] for name, value in told.headers.items()},
        told.data,
        requests.Request("GET", "http://plane/").prepare(),
        elapsed=0.0,
        verify=False,
    )
    operation.validate_response(answer)


def test_the_answers_of_a_life_of_a_job_are_what_is_described(app: App) -> None:
    spec = {"name": "j", "workload": {"kind": "command", "command": ["true"]}}
    job = ask(app, "POST", "/v1/jobs", {"spec": spec})
    _conforms("submit", job)
    path = f"/v1/jobs/{job.json()['id']}"
    _conforms("job", ask(app, "GET", path))
    _conforms("events", ask(app, "GET", f"{path}/events"))
    _conforms("decision", ask(app, "GET", f"{path}/decision"))
    _conforms("jobs", ask(app, "GET", "/v1/jobs?all=1"))
    _conforms("cancel", ask(app, "POST", f"{path}/cancel", {}))
    _conforms("cancel_many", ask(app, "POST", "/v1/jobs/cancel", {"all": True}))
    _conforms("retry", ask(app, "POST", f"{path}/retry", {}))
    _conforms("submit_batch", ask(app, "POST", "/v1/jobs/batch", {"jobs": [{"spec": spec}]}))
    _conforms("plan", ask(app, "POST", "/v1/plan", {"spec": spec}))


def _conforms(name: str, told: Told) -> None:
    assert told.status == 200, told.text
    (operation,) = [op for op in OPERATIONS if op.definition.raw["operationId"] == name]
    _check(operation, told)
