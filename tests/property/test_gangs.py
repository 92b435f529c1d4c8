"""Gangs under any order of what workers, people and planes do: they end once, and whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, example, given, settings, strategies as st

from gpulayer.contracts.capabilities import Interpreter
from gpulayer.contracts.messages import Held, TaskReport
from gpulayer.contracts.states import LIVE_TASK_STATES, TERMINAL_JOB_STATES
from tests.support.env import Env, EnvWorker

PYTHON = Interpreter("/usr/bin/python3", "3.12.7", frameworks={"torch": "2.13.0"})
NODES = 3
ROUNDS = 40

workers = st.integers(0, 1)
actions = st.one_of(
    st.tuples(st.just("acquire"), workers, st.booleans()),
    st.tuples(st.just("start"), workers, st.integers(0, 2)),
    st.tuples(st.just("end"), workers, st.integers(0, 2), st.sampled_from([0, 0, 3])),
    st.tuples(st.just("port"), workers),
    st.tuples(st.just("restart"), workers, st.booleans()),
    st.tuples(st.just("advance"), st.integers(1, 40)),
    st.tuples(st.just("cancel"), st.sampled_from(["int", "kill"])),
    st.tuples(st.just("plane")),
    st.tuples(st.just("pass")),
)


class Gang:
    """One gang of three nodes on two workers."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.cancelled = False
        """By a person, before it was ending by itself."""
        self.workers = [env.worker(name, cores=4, interpreters=(PYTHON,)) for name in "ab"]
        work = {"kind": "distributed", "entrypoint": "train.py", "num_workers": NODES}
        self.job = env.submit(workload=work, cores=2)
        env.run_pass()

    def do(self, what: tuple[Any, ...]) -> None:
        match what:
            case ("acquire", n, lost):
                self.workers[n].acquire(lost=lost)
            case ("start", n, at):
                self.start(self.workers[n], at)
            case ("end", n, at, code):
                self.end(self.workers[n], at, code)
            case ("port", n):
                zero = [h for h in self.held(self.workers[n]) if self.rank(self.workers[n], h) == 0]
                if zero and zero[0].phase == "running":
                    worker = self.workers[n]
                    worker.report(worker.ending(zero[0], 125, reason="port_taken"))
            case ("restart", n, keeps):
                self.workers[n].register(restarted=True, keeps=keeps)
            case ("advance", seconds):
                self.env.advance(seconds, step=5)
            case ("cancel", mode):
                job = self.env.job(self.job)
                unasked = job.cancel_reason is None and job.state not in TERMINAL_JOB_STATES
                self.cancelled = self.cancelled or unasked
                self.env.plane.cancel(self.job, mode=mode).result(0)
            case ("plane",):
                self.env.restart_plane()
                for worker in self.workers:
                    worker.register()
            case _:
                self.env.run_pass()

    def held(self, worker: EnvWorker) -> list[Held]:
        return [held for held in worker.held.values() if held.phase != "exited"]

    def rank(self, worker: EnvWorker, held: Held) -> int:
        return worker.assignments[held.task_id].rank

    def start(self, worker: EnvWorker, at: int) -> None:
        staging = [held for held in self.held(worker) if held.phase == "staging"]
        if at < len(staging):
            held = staging[at]
            running = worker.held[held.task_id] = Held(held.task_id, held.fence, "running")
            place = {"address": "127.0.0.1", "port": held.fence, "token": "t"}
            news = TaskReport(running.task_id, running.fence, "running", self.env.clock.now())
            if self.rank(worker, held) == 0:
                news = TaskReport(*_start(news), rendezvous=place)
            worker.report(news)

    def end(self, worker: EnvWorker, at: int, code: int) -> None:
        held = self.held(worker)
        if at < len(held):
            rank, now = self.rank(worker, held[at]), self.env.clock.now()
            how = {"failed_rank": rank, "failed_at": now} if code else {}
            worker.report(worker.ending(held[at], code, **how))

    def obey(self, worker: EnvWorker) -> None:
        """What an honest worker does with all that it is told."""
        orders = {order.task_id for order in worker.acquire().cancel}
        for held in self.held(worker):
            if held.task_id in orders:
                worker.report(worker.ending(held, 143, outcome="cancelled"))
        while any(held.phase == "staging" for held in self.held(worker)):
            self.start(worker, 0)
        for held in self.held(worker):
            if worker.held.get(held.task_id) is not None:
                worker.report(worker.ending(held, 0))
        worker.report(*(e for t, e in worker.endings.items() if t in worker.held))


def _start(news: TaskReport) -> tuple[Any, ...]:
    return news.task_id, news.fence, news.phase, news.started_at


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(actions, max_size=25))
@example([])
def test_a_gang_ends_once_and_whole_whatever_happens(story: list[tuple[Any, ...]]) -> None:
    with Env() as env:
        gang = Gang(env)
        for what in story:
            gang.do(what)
            live = Counter(t.rank for t in env.tasks(gang.job) if t.state in LIVE_TASK_STATES)
            assert max(live.values(), default=1) == 1
            assert len(live) in (0, NODES) or env.job(gang.job).state in ("scheduled", "running")
        for round_ in range(ROUNDS):
            if env.job(gang.job).state in TERMINAL_JOB_STATES:
                break
            env.advance(1 if round_ < ROUNDS / 2 else 40, step=5)
            for worker in gang.workers:
                worker.register()
            env.run_pass()
            for worker in (*gang.workers, *gang.workers):
                gang.obey(worker)
        assert env.job(gang.job).state in TERMINAL_JOB_STATES
        assert not [t for t in env.tasks(gang.job) if t.state in LIVE_TASK_STATES]
        assert env.story(gang.job).count("finished") == 1
        assert not gang.cancelled or env.state(gang.job) == "cancelled"
        assert story or env.state(gang.job) == "succeeded"
        if env.state(gang.job) == "succeeded":
            last = sorted(env.tasks(gang.job), key=lambda task: task.fence)[-NODES:]
            assert {(t.rank, t.state) for t in last} == {(r, "succeeded") for r in range(NODES)}
