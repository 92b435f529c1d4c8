"""Who may come into a running job, how its worker hears of it, and what the job's record keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.contracts import limits
from gpulayer.contracts.capabilities import Interpreter
from gpulayer.contracts.messages import Acquired, TaskReport
from gpulayer.contracts.principals import LOCAL, Principal, Role
from gpulayer.control_plane.stream_rules import MEET_SECONDS, Wish
from gpulayer.errors import GPULayerError
from tests.support.env import Env

ADA = Principal(Role.SUBMITTER, "ada", "c1", "ada's laptop")


@pytest.fixture
def env() -> Iterator[Env]:
    with Env() as env:
        env.worker("lab", streams=True, version="1.2")
        yield env


def running(env: Env, worker: str = "lab") -> str:
    job = env.submit(placement={"worker_ids": [worker]})
    env.run_pass()
    env.workers[worker].acquire()
    env.workers[worker].start(job)
    return job


def opened(env: Env, job: str, name: str = "stream-0000000000", **wish: Any) -> dict[str, Any]:
    asked = Wish(**{"kind": "exec", "argv": ("ps", "x"), **wish})
    return env.plane.streams.open(job, name, asked, ADA)


def refused(env: Env, job: str, **wish: Any) -> GPULayerError:
    with pytest.raises(GPULayerError) as caught:
        opened(env, job, "another-0000000000", **wish)
    return caught.value


def story(env: Env, job: str) -> list[tuple[str, str, dict[str, Any]]]:
    kept = env.plane.events(job)
    return [(e["kind"], e["message"], e["data"]) for e in kept if e["kind"].startswith("exec")]


def test_the_worker_hears_of_it_by_its_parked_call_and_once(env: Env) -> None:
    job = running(env)
    with env.plane.wakeups.subscribe("worker:lab") as parked:
        told = opened(env, job, node=0)
        assert parked.wait(0), "whoever parks is woken"
    assert (told["job"], told["worker"], told["node"]) == (job, "lab", 0)
    (order,) = env.workers["lab"].acquire().streams
    assert (order.kind, order.argv, order.job_id) == ("exec", ("ps", "x"), job)
    assert order.task_id == env.live_task(job).id
    again = env.workers["lab"].acquire()
    assert again.streams == ()
    assert not again.is_news


def test_an_answer_that_was_lost_brings_it_again_until_somebody_came(env: Env) -> None:
    job = running(env)
    opened(env, job)
    lab = env.workers["lab"]
    lab.acquire(lost=True)
    env.advance(env.settings.redeliver_seconds)
    assert len(lab.acquire().streams) == 1
    env.plane.streams.get("stream-0000000000").is_handed = True
    env.advance(env.settings.redeliver_seconds)
    assert lab.acquire().streams == ()


def test_jobs_that_nobody_enters_cost_their_workers_nothing(env: Env) -> None:
    running(env)
    assert env.plane.streams.orders("lab") == []
    assert Acquired.from_json({"ok": True}).streams == (), "and an older plane says nothing of it"


def test_the_same_id_again_is_the_same_stream(env: Env) -> None:
    job = running(env)
    assert opened(env, job) == opened(env, job)
    assert len(env.workers["lab"].acquire().streams) == 1
    with pytest.raises(GPULayerError, match="another stream"):
        env.plane.streams.open(job, "stream-0000000000", Wish("exec", ("ls",)), LOCAL)


def test_a_job_that_waits_is_prepared_or_has_ended_says_so(env: Env) -> None:
    waiting = env.submit(cores=1000)
    error = refused(env, waiting)
    assert (error.code, error.help) == ("job-not-running", (f"gpulayer why {waiting}",))
    preparing = env.submit()
    env.run_pass()
    error = refused(env, preparing)
    assert (error.code, error.help) == ("job-not-running", (f"gpulayer events -f {preparing}",))
    assert "being prepared" in error.why
    over = running(env)
    env.workers["lab"].finish(over)
    error = refused(env, over)
    assert (error.code, error.help) == ("job-not-running", (f"gpulayer logs {over}",))


def test_a_worker_that_is_silent_or_too_old_is_named(env: Env) -> None:
    env.worker("old", version="0.9")
    job = running(env, "old")
    error = refused(env, job)
    assert error.code == "version-mismatch"
    assert "0.9" in error.why
    job = running(env)
    env.clock.advance(env.settings.lease_seconds)
    error = refused(env, job)
    assert error.code == "worker-unreachable"
    assert "30 s" in error.why


def test_a_worker_of_another_plane_of_the_same_store_is_refused_by_name(env: Env) -> None:
    job = running(env)
    session = env.plane._sessions.get(env.live_task(job).worker_id)
    assert session is not None
    session.is_far = True
    error = refused(env, job)
    assert error.code == "worker-unreachable"
    assert "another of the planes" in error.why


def test_each_node_of_a_gang_is_entered_where_it_runs(env: Env) -> None:
    python = Interpreter("/usr/bin/python3", "3.12.7", frameworks={"torch": "2.13.0"})
    for name in ("a", "b"):
        env.worker(name, cores=2, streams=True, interpreters=(python,))
    work = {"kind": "distributed", "entrypoint": "train.py", "num_workers": 2}
    job = env.submit(workload=work, cores=2)
    env.run_pass()
    tasks = {task.rank: task for task in env.tasks(job)}
    first, second = (env.workers[tasks[node].worker_id] for node in (0, 1))
    first.acquire()
    held = first.task(job)
    meets = {"address": "10.0.0.1", "port": 4711, "token": "t"}
    first.report(TaskReport(held.task_id, held.fence, "running", 1.0, rendezvous=meets))
    assert refused(env, job, node=1).code == "job-not-running", "the other is still prepared"
    second.acquire()
    second.start(job)
    told = opened(env, job, node=1)
    assert (told["worker"], told["node"]) == (second.name, 1)
    assert second.acquire().streams[0].task_id == tasks[1].id
    assert "counted from 0" in refused(env, job, node=2).why


def test_a_plane_inside_a_program_says_that_its_jobs_cannot_be_entered() -> None:
    with Env(kind="embedded") as env:
        env.worker("lab", streams=True)
        error = refused(env, running(env))
        assert error.code == "worker-unreachable"
        assert "inside a program" in error.message


def test_a_job_in_an_image_is_not_entered_beside_its_container(env: Env) -> None:
    """As a worker would that is older than the way into it."""
    env.worker("old", streams=True, containers="podman 4.3.1")
    env.worker("new", streams=True, containers="podman 4.3.1", enters_images=True)
    image = "docker.io/library/busybox@sha256:" + "0" * 64
    jobs = {}
    for name in ("old", "new"):
        jobs[name] = env.submit(image=image, placement={"worker_ids": [name]})
        env.run_pass()
        env.workers[name].acquire()
        env.workers[name].start(jobs[name])
    error = refused(env, jobs["old"])
    assert error.code == "version-mismatch"
    assert "old is too old for this" in error.message
    forward = opened(env, jobs["old"], "a-forward-00000000", kind="forward", argv=(), port=80)
    assert forward["worker"] == "old"
    assert opened(env, jobs["new"])["worker"] == "new"


def test_a_node_that_is_not_there(env: Env) -> None:
    job = running(env)
    assert "has no node 1" in refused(env, job, node=1).message


@pytest.mark.parametrize(
    "wish",
    [
        {"kind": "spy"},
        {"argv": ("a\0b",)},
        {"argv": ("a" * limits.EXEC_BYTES,)},
        {"set": {"LD_PRELOAD": "x"}},
        {"kind": "forward", "port": 0},
        {"kind": "forward", "port": 65536},
        {"kind": "connect", "port": 80},
        {"kind": "connect", "port": 80, "forward": "stream-0000000000"},
    ],
    ids=str,
)
def test_what_no_stream_can_be(env: Env, wish: dict[str, Any]) -> None:
    job = running(env)
    opened(env, job)
    assert refused(env, job, **wish).code in ("usage", "too-large")


def test_a_connection_belongs_to_a_forward_of_the_same_person_job_and_port(env: Env) -> None:
    job, other = running(env), running(env)
    opened(env, job, kind="forward", port=80)
    wish = Wish("connect", port=80, forward="stream-0000000000")
    env.plane.streams.open(job, "connect-0000000000", wish, ADA)
    for selector, port, by in ((other, 80, ADA), (job, 81, ADA), (job, 80, LOCAL)):
        wish = Wish("connect", port=port, forward="stream-0000000000")
        with pytest.raises(GPULayerError, match="belongs to a forward"):
            env.plane.streams.open(selector, "connect-1111111111", wish, by)


def test_there_is_a_limit_for_a_job_and_what_nobody_came_for_counts_no_more(env: Env) -> None:
    job = running(env)
    for n in range(limits.STREAMS_PER_JOB):
        opened(env, job, f"stream-{n:010}")
    assert refused(env, job).code == "too-many-streams"
    opened(env, running(env), "of-another-job-0000")
    env.plane.streams.ended(env.plane.streams.get("stream-0000000000"), None, "")
    opened(env, job, "in-its-place-0000000")
    env.advance(2 * MEET_SECONDS + 1)
    env.workers["lab"].report()
    opened(env, job, "much-later-000000000")


def test_the_record_says_who_came_with_what_and_how_it_ended(env: Env) -> None:
    job = running(env)
    opened(env, job)
    stream = env.plane.streams.get("stream-0000000000")
    env.plane.streams.started(stream, ["curl", "-H", "[redacted:TOKEN]"]).result(0)
    env.clock.advance(1.5)
    env.plane.streams.ended(stream, 3, "")
    env.plane.streams.ended(stream, None, "twice is once")
    first, last = story(env, job)
    assert first[:2] == ("exec", "ada's laptop: curl -H '[redacted:TOKEN]'")
    assert first[2]["argv"] == ["curl", "-H", "[redacted:TOKEN]"]
    assert last[:2] == ("exec_ended", "ada's laptop: exit code 3 after 1.5 s")
    assert (last[2]["exit_code"], last[2]["by"], last[2]["owner"]) == (3, "ada's laptop", "ada")


def test_the_record_has_room_for_the_beginning_of_a_long_line(env: Env) -> None:
    job = running(env)
    opened(env, job)
    stream = env.plane.streams.get("stream-0000000000")
    env.plane.streams.started(stream, ["echo", "x" * 50_000]).result(0)
    ((_, message, data),) = story(env, job)
    assert len(message) < 3_000
    assert len(data["argv"][1]) < 3_000


def test_stacks_are_asked_of_a_worker_that_tells_them_and_no_words_are_kept(env: Env) -> None:
    env.worker("new", streams=True, stacks=True)
    job = running(env, "new")
    opened(env, job, kind="stacks", argv=())
    (order,) = env.workers["new"].acquire().streams
    assert (order.kind, order.argv) == ("stacks", ())
    stream = env.plane.streams.get("stream-0000000000")
    env.plane.streams.started(stream, ["/python", "stacks.py"]).result()
    env.plane.streams.ended(stream, 0, "")
    found = [e for e in env.plane.events(job) if e["kind"].startswith("stacks")]
    assert [(e["kind"], e["message"]) for e in found] == [
        ("stacks", "ada's laptop: looks at the stacks")
    ]
    assert "argv" not in found[0]["data"]
    error = refused(env, running(env), kind="stacks", argv=())
    assert error.code == "version-mismatch"
