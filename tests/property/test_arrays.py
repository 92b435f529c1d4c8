"""Any order of things keeps the laws of arrays: each element ends once, the counts are those of the
states, no more than allowed run at one time, and once the faults stop every array ends. With
workers that take runs of elements, and with others."""

from __future__ import annotations

import random

import pytest

from gpulayer.contracts import runs as contracts
from gpulayer.contracts.messages import TaskReport
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from tests.property.test_lifecycle import _LIKELY, _RARE, World

SEEDS = 40
STEPS = 60


class Arrays(World):
    """The same world, where most of what is submitted is an array."""

    def submit(self, a: int, b: int) -> None:
        if b % 4 == 0:
            super().submit(a, b)
            return
        limits = {"max_parallel": 1 + a % 3} if a % 2 else {}
        limits |= {"max_failures": a % 4} if b % 3 == 0 else {}
        count, step = (1 + (a * 7 + b) % 9) * (1 + 3 * self.takes_runs), 1 + b % 2
        # A command keeps a folder of its own, so its elements go one by one.
        call = {"workload": {"kind": "function", "entrypoint": "m:f"}} if b % 5 else {}
        self.env.submit(
            retries=b % 3,
            retry_on=(("failed", "worker_lost", "timed_out")[a % 3],),
            priority=a % 2,
            array={"count": count, "first": a % 5, "step": step, **limits},
            **call,
        )

    def again(self, a: int, b: int) -> None:
        ended = [job for job in self.env.plane.jobs(ended=True) if job["finished_at"]]
        if ended:
            self.env.plane.retry(ended[a % len(ended)]["id"]).result(0)


class Runs(Arrays):
    """And what a run has done may be told while it goes on."""

    takes_runs = True

    def done(self, a: int, b: int) -> None:
        worker = self._worker(a)
        for held in worker.held.values():
            run = worker.assignments[held.task_id].run
            if held.phase == "running" and run is not None:
                indices = [index for index, _ in contracts.specs(run)][: 1 + b]
                rows = tuple(contracts.plain(index, 1.0, 1.0, None) for index in indices)
                news = TaskReport(held.task_id, held.fence, "running", elements=rows)
                self._send(worker, news, held_back=b > 7)
                return


@pytest.mark.parametrize("kind", [Arrays, Runs])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_arrays_keep_the_laws_and_end(seed: int, kind: type[Arrays]) -> None:
    draw = random.Random(seed)
    world = kind(seed)
    with world.env as env:
        verbs = (*_LIKELY, *_LIKELY, *_RARE, "again", *(["done"] * 4 * kind.takes_runs))
        for _ in range(STEPS):
            world.step(draw.choice(verbs), draw.randrange(10), draw.randrange(10))
        world.heal()
        env.check()
        states = {job["state"] for job in env.plane.jobs(ended=True)}
        assert states <= set(TERMINAL_JOB_STATES), env.plane.jobs()
