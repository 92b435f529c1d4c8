"""Every route, every role, every object: what is let through is what stands here, and no more.

The table is written down a second time on purpose: a slip in `api.authorize` is a difference. Then
each route is asked over the whole path of a request, so that a route that forgets its door fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.api.authorize import TABLE, Relation, may, may_at_all
from gpulayer.api.routes import ROUTES, Route
from gpulayer.contracts.principals import LOCAL, Principal, Role
from gpulayer.control_plane.stream_rules import Wish
from gpulayer.control_plane.submission import Submission
from tests.support.env import Env
from tests.support.knocking import Knocking

OWN, ENDED, OTHER, NONE = Relation.OWN, Relation.ENDED, Relation.OTHER, Relation.NONE

EXPECTED = """
public          anyone+none,own,ended,other viewer+* submitter+* operator+* admin+* worker+*
enrol           anyone+none viewer+none submitter+none operator+none admin+none worker+none
plane.look      viewer+none submitter+none operator+none admin+none
plane.gc        admin+none
plane.stop
environment.remove operator+none admin+none
job.submit      submitter+none operator+none admin+none
job.look        viewer+own,ended,other submitter+own,ended,other operator+own,ended,other
                admin+own,ended,other worker+own
job.act         submitter+own,ended operator+own,ended,other admin+own,ended,other
job.enter       submitter+own,ended operator+own,ended admin+own,ended,other
stream.join     submitter+own operator+own admin+own
stream.serve    worker+own
artifact.get    viewer+* submitter+* operator+* admin+* worker+own
artifact.put    submitter+* operator+* admin+* worker+own
artifact.mend   submitter+none operator+none admin+none
worker.drain    operator+own,ended,other admin+own,ended,other worker+own
worker.manage   operator+own,ended,other admin+own,ended,other
worker.revoke   admin+own,ended,other worker+own
worker.speak    worker+own
worker.log      worker+own,ended
worker.checkpoint  worker+own
worker.metrics     worker+own
token.look      viewer+none,own,ended submitter+none,own,ended operator+none,own,ended admin+*
token.give      admin+none
token.revoke    viewer+own,ended submitter+own,ended operator+own,ended admin+own,ended,other
"""


def expected() -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    action = ""
    for word in EXPECTED.split():
        role, plus, relations = word.partition("+")
        if not plus:
            action = word
            found[action] = set()
            continue
        named = list(Relation) if relations == "*" else relations.split(",")
        found[action] |= {(role, str(relation)) for relation in named}
    return found


def test_the_table_is_what_was_decided() -> None:
    told = {
        action: {
            (str(role), str(relation))
            for role in Role
            for relation in Relation
            if role is not Role.LOCAL and may(role, action, relation)
        }
        for action in TABLE
    }
    assert told == expected()


def test_what_has_no_row_is_nobodys() -> None:
    assert not any(may_at_all(role, "brand.new") for role in Role)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_has_a_row_and_an_object_that_is_known(route: Route) -> None:
    assert route.action in TABLE
    known = ("", "job", "task", "worker", "token", "artifact", "speaker", "jobs", "stream")
    assert route.object in known
    if "{" in route.path:
        assert route.object or route.action == "artifact.mend"  # of a person: any base


@pytest.fixture(params=[role for role in Role if role is not Role.LOCAL], ids=str)
def role(request: pytest.FixtureRequest) -> Role:
    return Role(request.param)


@pytest.fixture
def door() -> Iterator[Knocking]:
    with Env() as env:
        door = Knocking(env)
        yield door
        door.close()


def submitted(plane: Env, owner: str, **spec: Any) -> str:
    asked = Submission(plane.spec(**spec), owner=owner)
    return str(plane.plane.submit([asked]).result(0)[0].id)


def body_of(env: Env, route: Route, relation: Relation, role: Role) -> Any:
    if route.method == "GET":
        return None
    if route.method == "PUT":
        return b"data"
    if route.object == "speaker":
        return {"worker_id": "mine" if relation is OWN else "other"}
    if route.object == "jobs":
        return {"jobs": [a_job(env, role, OWN), a_job(env, role, relation)]}
    return {}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_request_is_let_through_exactly_where_the_table_says(
    route: Route, role: Role, door: Knocking
) -> None:
    me = "mine" if role is Role.WORKER else "me"
    token = None
    if role is Role.WORKER:
        token = door.session("mine")
    elif role is not Role.ANYONE:
        token = door.token(role, owner=me)
    for relation in objects_of(route, role):
        path = prepared(door, route, role, relation)
        status, answer = door.ask(
            route.method, path, body_of(door.env, route, relation, role), token=token
        )
        allowed = may(role, route.action, relation)
        refusal = answer["error"]["code"] if status >= 400 and isinstance(answer, dict) else ""
        if allowed:
            assert refusal not in ("unauthorized", "not-allowed"), (relation, answer)
            if route.object:
                assert refusal not in ("job-not-found", "artifact-not-found"), (relation, answer)
        elif role is Role.ANYONE:
            assert (status, refusal) == (401, "unauthorized")
        elif role is Role.WORKER and route.method == "GET" and may_at_all(role, route.action):
            assert status == 404  # what is not its own is not there
        else:
            assert (status, refusal) == (403, "not-allowed")


def objects_of(route: Route, role: Role) -> tuple[Relation, ...]:
    """The relations that there can be, the destructive ones last."""
    if not route.object or (route.object == "artifact" and role is not Role.WORKER):
        return (NONE,)
    if route.object in ("worker", "speaker", "artifact"):
        return (OTHER, OWN) if role is Role.WORKER else (OTHER,)
    if route.object == "task" and role is not Role.WORKER:
        return (OTHER,)
    if route.object == "stream":
        return (OTHER, OWN)
    if route.object in ("job", "jobs") and role is Role.WORKER:
        return (OTHER, OWN)
    return (OTHER, ENDED, OWN)


def prepared(door: Knocking, route: Route, role: Role, relation: Relation) -> str:
    """The route's path, with an object that stands so to the caller."""
    env, path = door.env, route.path
    fits = {
        "{selector}": a_job,
        "{task}": a_task,
        "{worker}": lambda env, role, relation: a_worker(env, relation),
        "{stream}": a_stream,
        "{token}": lambda env, role, relation: a_token(door, relation),
        "{digest}": lambda env, role, relation: an_artifact(env, role, relation),
    }
    for word, make in fits.items():
        if word in path:
            path = path.replace(word, make(env, role, relation))
    if route.action == "artifact.put" and relation is OWN:
        a_task(env, role, OWN)
    if path.endswith("/log"):
        path += f"?offset=0&fence={path.split('/')[-2][1:]}"  # a task is called by its fence
    return path


def a_worker(env: Env, relation: Relation) -> str:
    name = "mine" if relation is OWN else "other"
    if name not in env.workers:
        env.worker(name)
    return name


def a_task(env: Env, role: Role, relation: Relation) -> str:
    a_worker(env, OWN if relation is ENDED else relation)
    worker = env.workers["other" if relation is OTHER else "mine"]
    return env.live_task(placed_on(env, worker.name)).id if relation is not ENDED else ended_on(env)


def placed_on(plane: Env, name: str, **spec: Any) -> str:
    job = submitted(plane, "", placement={"worker_ids": [name]}, **spec)
    plane.run_pass()
    assert plane.live_task(job).worker_id == name
    return job


def ended_on(env: Env) -> str:
    worker = env.workers["mine"]
    job = placed_on(env, "mine")
    task = env.live_task(job).id
    worker.acquire()
    worker.start(job)
    worker.finish(job)
    return task


def a_job(env: Env, role: Role, relation: Relation) -> str:
    if role is Role.WORKER:
        a_worker(env, relation)
        return placed_on(env, "mine" if relation is OWN else "other")
    job = submitted(env, "somebody" if relation is OTHER else "me")
    if relation is ENDED:
        env.plane.cancel(job).result(0)
    return job


def a_stream(env: Env, role: Role, relation: Relation) -> str:
    """Into a job of somebody's that runs on a worker of somebody's."""
    name = "mine" if relation is OWN and role is Role.WORKER else "other"
    owner = "me" if relation is OWN else "somebody"
    if name not in env.workers:
        env.worker(name, streams=True)
    job = placed_on(env, name)
    env.workers[name].acquire()
    env.workers[name].start(job)
    by = Principal(Role.SUBMITTER, owner)
    env.plane.streams.open(job, f"{name}-{owner}-{job}", Wish("exec", ("true",)), by)
    return f"{name}-{owner}-{job}"


def a_token(door: Knocking, relation: Relation) -> str:
    token = door.token("viewer", owner="somebody" if relation is OTHER else "me")
    identity = token.split("_")[1]
    if relation is ENDED:
        door.env.plane.revoke(identity, LOCAL).result(0)
    return identity


def an_artifact(env: Env, role: Role, relation: Relation) -> str:
    mine, theirs = b"mine", b"theirs"
    for data in (mine, theirs):
        env.artifacts.put_stream(iter([data]), hashlib.sha256(data).hexdigest())
    digest = hashlib.sha256(theirs if relation is OTHER else mine).hexdigest()
    if relation is OWN:
        a_worker(env, OWN)
        placed_on(env, "mine", env={"DATA": f"artifact://sha256/{digest}"})
    return digest
