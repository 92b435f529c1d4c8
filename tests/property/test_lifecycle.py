"""Any order of things keeps the laws, and once the faults stop every accepted job ends.

Workers here are honest but unlucky: messages are lost after they were obeyed, come twice, or come
late; workers and the plane are restarted; time goes by. The laws are in `tests.support.laws`.
A step is a verb and two small numbers, which the verb reads as it likes.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st

from gpulayer.contracts.messages import Held, Report, TaskReport
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.control_plane.lifecycle.retry import BACKOFF_CAP_SECONDS
from tests.support.env import Env, EnvWorker

_OUTCOMES = ("succeeded", "failed", "timed_out", "lost", "cancelled")
_RETRY_ON = ("failed", "worker_lost", "timed_out", "exit:3")
_FATES = ("arrives", "arrives", "delayed", "twice", "reply lost")
_SECONDS = (1.0, 5.0, 31.0, 700.0)
_LIKELY = ("submit", "work", "work", "start", "finish", "finish", "finish", "tick")
_RARE = ("cancel", "beat", "late", "lose", "time", "time", "new_worker", "new_agent", "new_plane")


class World:
    """An `Env` with two small workers, and a network that may hold reports back."""

    takes_runs = False
    """Its workers do, of elements."""

    def __init__(self, seed: int) -> None:
        self.env = Env(seed=seed)
        self.held_back: list[tuple[EnvWorker, Report]] = []
        self.env.worker("w1", cores=1, gpus=seed % 3, takes_runs=self.takes_runs)
        self.env.worker("w2", cores=1, gpus=1, takes_runs=self.takes_runs)

    def step(self, verb: str, a: int, b: int) -> None:
        getattr(self, verb)(a, b)
        self.env.check()

    def submit(self, a: int, b: int) -> None:
        limit = {"timeout_seconds": 5.0} if a % 2 else {}
        self.env.submit(
            gpus=int(a % 3 == 0),
            retries=b % 4,
            retry_on=(_RETRY_ON[a % 4],),
            priority=b % 3,
            placement={"on_unschedulable": "fail" if b > 6 else "queue"},
            **limit,
        )

    def work(self, a: int, b: int) -> None:
        self.env.run_pass()
        for worker in self.env.workers.values():
            worker.acquire()

    def lose(self, a: int, b: int) -> None:
        """An answer with work in it."""
        self.env.run_pass()
        self._worker(a).acquire(lost=True)

    def start(self, a: int, b: int) -> None:
        worker = self._worker(a)
        for held in list(worker.held.values()):
            if held.phase == "staging":
                worker.held[held.task_id] = Held(held.task_id, held.fence, "running")
                began = self.env.clock.now()
                news = TaskReport(held.task_id, held.fence, "running", began)
                self._send(worker, news, held_back=b > 7)
                return

    def finish(self, a: int, b: int) -> None:
        worker = self._worker(a)
        alive = [held for held in worker.held.values() if held.phase != "exited"]
        if not alive:
            return
        held, outcome, fate = alive[0], _OUTCOMES[a % 5], _FATES[b % 5]
        began = None if held.phase == "staging" else self.env.clock.now()
        code = 0 if outcome == "succeeded" else 1 + b % 4
        news = worker.ending(held, code, outcome=outcome, started_at=began)
        self._send(worker, news, held_back=fate == "delayed")
        if fate == "twice" and worker.last_report is not None:
            worker.say(worker.last_report)
        if fate == "reply lost":
            worker.held[held.task_id] = Held(held.task_id, held.fence, "exited")

    def cancel(self, a: int, b: int) -> None:
        jobs = self.env.plane.jobs(ended=True)
        if jobs:
            mode = ("int", "term", "kill")[b % 3]
            self.env.plane.cancel(jobs[a % len(jobs)]["id"], mode=mode).result(0)

    def beat(self, a: int, b: int) -> None:
        worker = self._worker(a)
        if not worker.report().ok:
            worker.register()

    def late(self, a: int, b: int) -> None:
        if self.held_back:
            worker, report = self.held_back.pop(a % len(self.held_back))
            worker.say(report)

    def new_worker(self, a: int, b: int) -> None:
        self._worker(a).register(restarted=True, keeps=False)

    def new_agent(self, a: int, b: int) -> None:
        self._worker(a).register(restarted=True, keeps=True)

    def new_plane(self, a: int, b: int) -> None:
        self.env.restart_plane()
        if b % 2:
            self.beat(0, 0)
            self.beat(1, 0)

    def time(self, a: int, b: int) -> None:
        self.env.clock.advance(_SECONDS[a % 4])

    def tick(self, a: int, b: int) -> None:
        self.env.clock.advance(1.0)
        self.env.reconcile()
        self.env.reconcile()

    def heal(self) -> None:
        """Faults stop: workers come back, and do well whatever they are given."""
        self.env.worker("healer", cores=8, gpus=2, takes_runs=self.takes_runs)
        for _ in range(60):
            for n, worker in enumerate(self.env.workers.values()):
                self.beat(n, 0)
                worker.acquire()
                for held in list(worker.held.values()):
                    worker.report(worker.endings.get(held.task_id) or worker.ending(held))
            self.env.clock.advance(BACKOFF_CAP_SECONDS / 20)
            self.env.reconcile()
            self.env.run_pass()
            states = {job["state"] for job in self.env.plane.jobs(ended=True)}
            if states <= set(TERMINAL_JOB_STATES):
                return

    def _worker(self, n: int) -> EnvWorker:
        return list(self.env.workers.values())[n % len(self.env.workers)]

    def _send(self, worker: EnvWorker, news: TaskReport, *, held_back: bool) -> None:
        worker.seq += 1
        inventory = tuple(worker.held.values())
        report = Report(worker.name, worker.incarnation, worker.seq, inventory, (news,))
        if held_back:
            self.held_back.append((worker, report))
            return
        worker.last_report = report
        worker.say(report)


_STEPS = st.tuples(st.sampled_from(_LIKELY * 2 + _RARE), st.integers(0, 9), st.integers(0, 9))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 99), st.lists(_STEPS, min_size=10, max_size=60))
def test_the_laws_hold_in_any_order_and_every_job_ends(
    seed: int, steps: list[tuple[str, int, int]]
) -> None:
    world = World(seed)
    try:
        for step in steps:
            world.step(*step)
        world.heal()
        world.env.check()
        assert world.env.plane.jobs() == [], "an accepted job did not end"
    finally:
        world.env.close()


@pytest.mark.parametrize("seed", range(40))
def test_the_laws_hold_on_a_long_walk(seed: int) -> None:
    """Denser than what hypothesis draws, and the same each time."""
    draw = random.Random(seed)
    world = World(seed)
    try:
        for _ in range(80):
            world.step(draw.choice(_LIKELY * 2 + _RARE), draw.randrange(10), draw.randrange(10))
        world.heal()
        world.env.check()
        assert world.env.plane.jobs() == [], "an accepted job did not end"
    finally:
        world.env.close()
