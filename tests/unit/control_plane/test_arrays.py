"""An array is one job: its elements are given out, ended and counted one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.contracts import runs
from gpulayer.contracts.elements import ARRAY_END
from gpulayer.contracts.messages import Held, TaskReport
from gpulayer.errors import NotFoundError, RefusedError, UsageError
from gpulayer.runtime import segments
from tests.support.env import Env, EnvWorker


@pytest.fixture
def env() -> Iterator[Env]:
    with Env() as env:
        yield env


def give(env: Env, *workers: EnvWorker) -> None:
    """Place what there is room for, and take it."""
    chosen = workers or tuple(env.workers.values())
    for worker in chosen:
        worker.report()
    while env.run_pass():
        pass
    for worker in chosen:
        worker.acquire()


def live(env: Env, job: str) -> list[int]:
    with env.store.read() as reader:
        return sorted(task.index for task in reader.live_tasks() if task.job_id == job)


def finish(env: Env, worker: EnvWorker, job: str, index: int, code: int = 0, **end: Any) -> None:
    worker.finish(env.element(job, index), code, **end)


def run_all(env: Env, worker: EnvWorker, job: str, codes: dict[int, int] | None = None) -> None:
    for _ in range(1000):
        give(env, worker)
        indices = live(env, job)
        if not indices:
            return
        for index in indices:
            finish(env, worker, job, index, (codes or {}).get(index, 0))
    raise AssertionError("it does not end")


def test_one_row_waits_and_only_what_is_given_out_becomes_tasks(env: Env) -> None:
    worker = env.worker(cores=2)
    job = env.submit(array={"count": 10})
    assert env.tasks(job) == []
    give(env, worker)
    assert [task.index for task in env.tasks(job)] == [0, 1]
    assert (env.progress(job).live, env.progress(job).waiting) == (2, 8)
    assert env.state(job) == "scheduled"
    worker.start(env.element(job, 1))
    assert env.state(job) == "running"
    finish(env, worker, job, 0)
    finish(env, worker, job, 1)
    run_all(env, worker, job)
    ended = env.job(job)
    assert (ended.state, ended.exit_code, ended.message) == ("succeeded", 0, "")
    assert env.progress(job).succeeded == 10
    assert env.story(job) == ["submitted", "placed", "started", "finished"]


def test_a_million_elements_are_accepted_as_one_row_each_of_job_and_counts(env: Env) -> None:
    small = env.rows_written()
    env.submit(array={"count": 1})
    small = env.rows_written() - small
    large = env.rows_written()
    job = env.submit(array={"count": 1_000_000})
    assert env.rows_written() - large <= small
    env.plane.cancel(job).result(0)
    assert env.progress(job).cancelled == 1_000_000


def test_each_element_has_its_words_its_variables_and_its_result(env: Env) -> None:
    worker = env.worker(cores=4)
    array = {"matrix": {"lr": ["0.1", "0.01"], "seed": [1, 2]}}
    job = env.submit(
        "train", "--lr={lr}", "{{seed}} {seed} {other}", array=array, env={"A": "{index}"}
    )
    give(env, worker)
    told = {a.index: a for a in worker.assignments.values()}
    assert [told[n].spec["workload"]["command"] for n in range(4)] == [
        ["train", "--lr=0.1", "{seed} 1 {other}"],
        ["train", "--lr=0.1", "{seed} 2 {other}"],
        ["train", "--lr=0.01", "{seed} 1 {other}"],
        ["train", "--lr=0.01", "{seed} 2 {other}"],
    ]
    assert told[2].spec["env"] == {
        "A": "2",
        "GPULAYER_ARRAY_INDEX": "2",
        "GPULAYER_PARAM_LR": "0.01",
        "GPULAYER_PARAM_SEED": "1",
    }
    assert all("array" not in one.spec for one in told.values())
    for index in range(4):
        finish(env, worker, job, index, index)
    assert [env.result(job, n).exit_code for n in (ARRAY_END, 0, 1, 2, 3)] == [1, 0, 1, 2, 3]  # type: ignore[union-attr]


def test_a_function_is_called_with_the_item_the_parameters_or_the_index(env: Env) -> None:
    worker = env.worker(cores=4)
    work = {"kind": "function", "entrypoint": "m:f", "args": [0], "kwargs": {"b": 1}}
    env.submit(array={"items": [{"x": 1}]}, workload=work)
    env.submit(array={"matrix": {"a": [2]}}, workload=work)
    env.submit(array={"count": 1, "first": 7}, workload=work)
    give(env, worker)
    calls = [a.spec["workload"] for a in worker.assignments.values()]
    assert [(call["args"], call["kwargs"]) for call in calls] == [
        ([0, {"x": 1}], {"b": 1}),
        ([0], {"b": 1, "a": 2}),
        ([0, 7], {"b": 1}),
    ]


def test_an_array_with_a_failed_element_has_failed_and_names_it(env: Env) -> None:
    worker = env.worker(cores=4)
    job = env.submit(array={"count": 10, "first": 5, "step": 3})
    run_all(env, worker, job, {8: 3, 32: 1})
    ended = env.job(job)
    assert (ended.state, ended.reason, ended.exit_code) == ("failed", "elements_failed", 1)
    assert ended.message == "2 of 10 elements failed"
    told = env.plane.job(job)["array"]
    assert told["failed_indices"] == [8, 32]
    assert (told["succeeded"], told["failed"]) == (8, 2)
    assert [e["message"] for e in env.plane.events(job) if e["kind"] == "element"] == [
        "element 8: ",
        "element 32: ",
    ]


def test_a_page_of_elements_tells_states_and_results_and_where_to_go_on(env: Env) -> None:
    worker = env.worker(cores=2)
    job = env.submit(array={"count": 5, "first": 10, "step": 10})
    give(env, worker)
    finish(env, worker, job, 20, 4)
    page = env.plane.elements(job, limit=3)
    assert [(e["index"], e["state"]) for e in page["elements"]] == [
        (10, "running"),
        (20, "failed"),
        (30, "waiting"),
    ]
    assert page["elements"][1]["result"]["exit_code"] == 4
    rest = env.plane.elements(job, after=page["next"], limit=3)
    assert [e["index"] for e in rest["elements"]] == [40, 50]
    assert rest["next"] is None
    assert [e["index"] for e in env.plane.elements(job, state="failed")["elements"]] == [20]
    with pytest.raises(UsageError):
        env.plane.elements(env.submit())


def test_no_more_than_max_parallel_are_out_at_one_time(env: Env) -> None:
    worker = env.worker(cores=8)
    job = env.submit(array={"count": 20, "max_parallel": 3})
    seen = []
    while env.state(job) != "succeeded":
        give(env, worker)
        seen.append(len(live(env, job)))
        finish(env, worker, job, live(env, job)[0])
    assert max(seen) == 3


@pytest.mark.parametrize("most", [1, 2, 3])
def test_max_parallel_counts_runs_which_do_one_element_at_a_time(env: Env, most: int) -> None:
    worker = env.worker(cores=8, takes_runs=True)
    call = {"workload": {"kind": "function", "entrypoint": "m:f"}}
    job = env.submit(array={"count": 400, "max_parallel": most}, **call)
    seen = []
    while env.state(job) != "succeeded":
        give(env, worker)
        seen.append(live(env, job))
        finish(env, worker, job, seen[-1][0])
    assert max(map(len, seen)) == most
    assert len(env.tasks(job)) < 20, "they go out in runs"
    assert env.progress(job).succeeded == 400


def test_what_a_run_has_done_is_told_while_it_goes_on(env: Env) -> None:
    worker = env.worker(cores=1, takes_runs=True)
    call = {"workload": {"kind": "function", "entrypoint": "m:f"}}
    job = env.submit(array={"count": 5}, **call)
    give(env, worker)
    finish(env, worker, job, 0)
    give(env, worker)
    held = worker.task(job)
    started = TaskReport(held.task_id, held.fence, "running", env.clock.now())
    rows = [runs.plain(index, 1.0, 1.0, str(index)) for index in (1, 2, 4)]
    rows.append({"index": 3, "outcome": "failed", "exit_code": 1, "message": "told at its end"})
    done = TaskReport(held.task_id, held.fence, "running", elements=tuple(rows))
    worker.report(done)
    assert env.progress(job).succeeded == 1, "its start is not known: it is told again"
    worker.report(started)
    for _ in range(2):  # the second time changes nothing
        worker.report(done)
        env.check()
        assert (env.progress(job).succeeded, env.progress(job).live) == (3, 2)
    assert [env.result(job, index).value for index in (1, 2)] == ["1", "2"]
    worker.register(restarted=True, keeps=False)
    env.check()
    assert (env.progress(job).succeeded, env.progress(job).returned) == (3, 2)
    while env.state(job) != "succeeded":
        give(env, worker)
        finish(env, worker, job, live(env, job)[0])
    assert [task.index for task in env.tasks(job)] == [0, 1, 3, 4], "each that was lost goes alone"


def test_only_the_failed_element_is_tried_again(env: Env) -> None:
    worker = env.worker(cores=4)
    job = env.submit(array={"count": 3}, retries=2, retry_on=("failed",))
    give(env, worker)
    finish(env, worker, job, 0)
    finish(env, worker, job, 1, 1)
    finish(env, worker, job, 2)
    assert env.state(job) == "running"
    assert (env.progress(job).waiting, env.progress(job).returned) == (1, 1)
    env.advance(300)
    give(env, worker)
    assert live(env, job) == [1]
    assert env.element(job, 1).attempt == 2
    finish(env, worker, job, 1, 0)
    assert env.state(job) == "succeeded"
    assert {task.index: task.attempt for task in env.tasks(job)} == {0: 1, 1: 2, 2: 1}
    assert env.result(job, 1).attempt == 2  # type: ignore[union-attr]


def test_an_element_that_waits_for_its_next_attempt_holds_up_no_other(env: Env) -> None:
    worker = env.worker(cores=1)
    job = env.submit(array={"count": 4}, retries=3, retry_on=("failed",))
    for index in (0, 1, 2):
        give(env, worker)
        if live(env, job) != [index]:
            break
        finish(env, worker, job, index, 1)
    give(env, worker)
    assert len(live(env, job)) == 1
    (now,) = live(env, job)
    finish(env, worker, job, now)
    env.advance(600)
    run_all(env, worker, job)
    assert env.state(job) == "succeeded"


def test_what_a_lost_worker_had_not_told_is_given_out_again_and_nothing_else(env: Env) -> None:
    first = env.worker("w1", cores=4)
    job = env.submit(array={"count": 6})
    give(env, first)
    first.start(env.element(job, 2))
    finish(env, first, job, 0)
    first.register(restarted=True, keeps=False)
    assert env.progress(job).succeeded == 1
    assert env.result(job, 0) is not None
    second = env.worker("w2", cores=4)
    env.advance(300)
    first.register(restarted=True, keeps=False)
    run_all_of = [first, second]
    for _ in range(20):
        give(env)
        for worker in run_all_of:
            for held in [h for h in worker.held.values() if h.phase != "exited"]:
                worker.report(worker.ending(held))
        env.advance(5)
    assert env.progress(job).succeeded + env.progress(job).failed == 6
    assert env.result(job, 0).attempt == 1  # type: ignore[union-attr]
    assert {task.attempt for task in env.tasks(job) if task.index == 0} == {1}


def test_more_failures_than_allowed_end_the_array_and_what_runs(env: Env) -> None:
    worker = env.worker(cores=4)
    job = env.submit(array={"count": 100, "max_failures": 1})
    give(env, worker)
    finish(env, worker, job, 0, 1)
    assert env.state(job) == "running"
    finish(env, worker, job, 1, 1)
    give(env, worker)
    orders = {order.task_id for order in worker.report().cancel}
    left = live(env, job)
    assert orders == {env.element(job, index).id for index in left}
    finish(env, worker, job, left[0], 0)
    for index in left[1:]:
        finish(env, worker, job, index, 143, outcome="cancelled")
    ended = env.job(job)
    assert (ended.state, ended.reason, ended.exit_code) == ("failed", "max_failures", 1)
    progress = env.progress(job)
    assert (progress.failed, progress.succeeded) == (2, 1), "what ended by itself is told as it was"
    assert progress.cancelled == 97


def test_to_cancel_costs_the_same_whatever_the_size_and_ends_with_what_runs(env: Env) -> None:
    worker = env.worker(cores=2)
    sizes = []
    for count in (10, 100_000):
        job = env.submit(array={"count": count})
        give(env, worker)
        worker.start(env.element(job, 0))
        before = env.rows_written()
        env.plane.cancel(job).result(0)
        sizes.append(env.rows_written() - before)
        assert env.state(job) == "running"
        assert env.progress(job).waiting == 0
        give(env, worker)
        assert live(env, job) == [0, 1]
        for index in (0, 1):
            finish(env, worker, job, index, 143, outcome="cancelled")
        assert env.state(job) == "cancelled"
        assert env.progress(job).cancelled == count
        page = env.plane.elements(job, after=1, limit=1)
        assert page["elements"] == [{"index": 2, "state": "cancelled"}]
    assert sizes[0] == sizes[1]


def test_to_cancel_is_the_same_while_it_waits_and_when_all_came_back(env: Env) -> None:
    waits = env.submit(array={"count": 3})
    env.plane.cancel(waits).result(0)
    assert env.state(waits) == "cancelled"
    worker = env.worker(cores=1)
    job = env.submit(array={"count": 2}, retries=5, retry_on=("failed",))
    give(env, worker)
    finish(env, worker, job, 0, 1)
    while live(env, job):
        finish(env, worker, job, live(env, job)[0], 1)
    env.plane.cancel(job).result(0)
    assert env.state(job) == "cancelled"
    env.plane.cancel(job).result(0)


def test_a_retry_runs_what_did_not_succeed_and_nothing_else(env: Env) -> None:
    worker = env.worker(cores=100)
    job = env.submit(array={"count": 1100})
    give(env, worker)
    run_all(env, worker, job, {7: 1, 1050: 1})
    again = env.plane.retry(job).result(0)
    assert (again.retry_of, again.elements) == (job, 2)
    give(env, worker)
    assert live(env, again.id) == [7, 1050]
    run_all(env, worker, again.id, {7: 1})
    third = env.plane.retry(again.id).result(0)
    assert third.elements == 1
    run_all(env, worker, third.id)
    assert env.state(third.id) == "succeeded"
    fourth = env.plane.retry(third.id).result(0)
    assert fourth.elements == 1, "one that succeeded is run whole again"


def test_one_that_no_worker_could_run_fails_once_if_it_asked_to(env: Env) -> None:
    env.worker(cores=2)
    job = env.submit(array={"count": 5}, gpus=1, placement={"on_unschedulable": "fail"})
    env.advance(60)
    env.run_pass()
    assert env.state(job) == "failed"
    assert env.progress(job).cancelled == 5


def test_a_plain_job_of_the_same_size_waits_behind_an_older_array(env: Env) -> None:
    worker = env.worker(cores=2)
    job = env.submit(array={"count": 3})
    plain = env.submit()
    give(env, worker)
    assert live(env, job) == [0, 1]
    finish(env, worker, job, 0)
    give(env, worker)
    assert live(env, job) == [1, 2]
    finish(env, worker, job, 1)
    give(env, worker)
    assert live(env, plain) == [0]
    finish(env, worker, job, 2)
    worker.finish(plain)
    assert (env.state(job), env.state(plain)) == ("succeeded", "succeeded")


def test_a_new_plane_goes_on_with_an_array(env: Env) -> None:
    worker = env.worker(cores=2)
    job = env.submit(array={"count": 6})
    give(env, worker)
    worker.report()
    env.restart_plane()
    worker.register()
    finish(env, worker, job, 0)
    finish(env, worker, job, 1)
    run_all(env, worker, job)
    assert env.progress(job).succeeded == 6


def test_an_element_of_which_the_end_alone_is_heard_has_begun(env: Env) -> None:
    worker = env.worker(cores=1)
    job = env.submit(array={"count": 1})
    give(env, worker)
    finish(env, worker, job, 0)
    assert env.job(job).started_at is not None
    assert env.story(job) == ["submitted", "placed", "started", "finished"]


def test_logs_are_of_one_element_or_of_all_whole_records_in_turn(env: Env) -> None:
    def said(index: int, text: bytes) -> bytes:
        return segments.encode(segments.STDOUT, 0, index, 1.0, text)

    worker = env.worker(cores=3)
    job = env.submit(array={"count": 3})
    give(env, worker)
    tasks = [env.element(job, index) for index in range(3)]
    env.plane.append_log(tasks[1].id, tasks[1].fence, 0, said(1, b"one\n")).result(0)
    part = env.plane.log(job)
    assert [(r.index, r.data) for r in segments.decode(part.data)] == [(1, b"one\n")]
    finish(env, worker, job, 0, log=said(0, b"zero\n"))
    more = env.plane.log(job, part.next)
    assert [(r.index, r.data) for r in segments.decode(more.data)] == [(0, b"zero\n")]
    assert not more.eof
    finish(env, worker, job, 2)
    rest = said(1, b"one\n") + said(1, b"more\n")
    finish(env, worker, job, 1, log=rest)
    last = env.plane.log(job, more.next)
    assert [r.data for r in segments.decode(last.data)] == [b"more\n"]
    assert last.eof
    assert env.plane.log(job, last.next).data == b""
    assert env.plane.log(job, index=1).data == rest
    assert env.plane.log(job, index=1).eof
    assert env.plane.log(job, index=2) == ((b"",), "0", True, 0, None)
    with pytest.raises(NotFoundError):
        env.plane.log(job, index=3)


def test_the_cursor_of_a_long_array_stays_short(env: Env) -> None:
    worker = env.worker(cores=4)
    job = env.submit(array={"count": 400})
    cursor = ""
    give(env, worker)
    straggler = env.element(job, 0)
    while live(env, job) != [0]:
        for index in live(env, job)[1:]:
            finish(env, worker, job, index)
        cursor = env.plane.log(job, cursor).next
        give(env, worker)
    assert len(cursor) < 100
    assert straggler.fence in map(int, cursor.split(".")[1::2])
    finish(env, worker, job, 0)
    assert env.plane.log(job, cursor).eof


def test_files_of_elements_are_below_their_index(env: Env) -> None:
    worker = env.worker(cores=2)
    job = env.submit(array={"count": 2})
    give(env, worker)
    for index in (0, 1):
        digest, size = env.artifacts.put_stream([b"%d" % index])
        file = {"path": "out.txt", "digest": digest, "size": size}
        finish(env, worker, job, index, outputs=(file,))
    assert [o["path"] for o in env.plane.job(job)["outputs"]] == ["0/out.txt", "1/out.txt"]


def test_an_index_beside_the_grid_has_no_task(env: Env) -> None:
    worker = env.worker(cores=1)
    job = env.submit(array={"count": 2, "first": 1})
    give(env, worker)
    held = Held("t999", 999, "running")
    worker.held["t999"] = held
    assert worker.report().kill == ("t999",)
    run_all(env, worker, job)


def test_what_arrays_cannot_do_yet_is_refused_by_name(env: Env) -> None:
    with pytest.raises(RefusedError) as refused:
        env.submit(array={"count": 2}, checkpoint={"path": "a"})
    assert refused.value.code == "not-yet"
    assert "checkpoint of an array" in refused.value.message
