"""Any order of things keeps the laws, and once the faults stop every accepted job ends.

Workers here are honest but unlucky: messages are lost after they were obeyed, come twice, or come
late; workers and the plane are restarted; time goes by. The laws are in `tests.support.laws`.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpulayer.contracts.messages import Held, Report, TaskReport
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.control_plane.lifecycle.retry import BACKOFF_CAP_SECONDS
from tests.support.env import Env, EnvWorker

_OUTCOMES = ("succeeded", "failed", "failed", "timed_out", "lost", "cancelled")
_RETRY_ON = ("worker_lost", "failed", "timed_out", "exit:3")


class Lifecycle(RuleBasedStateMachine):
    @initialize(gpus=st.integers(0, 2), seed=st.integers(0, 999))
    def begin(self, gpus: int, seed: int) -> None:
        self.env = Env(seed=seed)
        self.pending: list[tuple[EnvWorker, Report]] = []
        """Reports that the network still holds."""
        self.env.worker("w1", cores=1, gpus=gpus)
        self.env.worker("w2", cores=1, gpus=1)

    @rule(
        count=st.integers(1, 3),
        gpus=st.integers(0, 1),
        retries=st.integers(0, 3),
        retry_on=st.sampled_from(_RETRY_ON),
        priority=st.integers(0, 2),
        fails=st.booleans(),
        timeout=st.sampled_from([None, 5.0]),
    )
    def submit(
        self,
        count: int,
        gpus: int,
        retries: int,
        retry_on: str,
        priority: int,
        fails: bool,
        timeout: float | None,
    ) -> None:
        limit = {} if timeout is None else {"timeout_seconds": timeout}
        for _ in range(count):
            self.env.submit(
                gpus=gpus,
                retries=retries,
                retry_on=(retry_on,),
                priority=priority,
                placement={"on_unschedulable": "fail" if fails else "queue"},
                **limit,
            )

    @rule(lost=st.sampled_from([None, None, "w1", "w2"]))
    def place_and_acquire(self, lost: str | None) -> None:
        self.env.run_pass()
        for worker in self.env.workers.values():
            worker.acquire(lost=worker.name == lost)

    @rule()
    def place(self) -> None:
        self.env.run_pass()

    @rule(name=st.sampled_from(["w1", "w2"]), lost=st.booleans())
    def acquire(self, name: str, lost: bool) -> None:
        self.env.workers[name].acquire(lost=lost)

    @rule(name=st.sampled_from(["w1", "w2"]), pick=st.integers(0, 9), lost=st.booleans())
    def start(self, name: str, pick: int, lost: bool) -> None:
        worker = self.env.workers[name]
        held = self._pick(worker, pick, "staging")
        if held is not None:
            worker.held[held.task_id] = Held(held.task_id, held.fence, "running")
            now = self.env.clock.now()
            self._send(worker, lost, TaskReport(held.task_id, held.fence, "running", now))

    @rule(
        name=st.sampled_from(["w1", "w2"]),
        pick=st.integers(0, 9),
        outcome=st.sampled_from(_OUTCOMES),
        code=st.integers(1, 4),
        fate=st.sampled_from(["arrives", "arrives", "delayed", "twice", "reply lost"]),
    )
    def finish(self, name: str, pick: int, outcome: str, code: int, fate: str) -> None:
        worker = self.env.workers[name]
        held = self._pick(worker, pick, "running", "staging")
        if held is None:
            return
        before = None if held.phase == "staging" else self.env.clock.now()
        code = 0 if outcome == "succeeded" else code
        news = worker.ending(held, code, outcome=outcome, started_at=before)
        if fate == "delayed":
            self._send(worker, True, news)
            return
        worker.report(news)
        if fate == "twice" and worker.last_report is not None:
            worker.say(worker.last_report)
        if fate == "reply lost":
            worker.held[held.task_id] = Held(held.task_id, held.fence, "exited")

    @rule(pick=st.integers(0, 30), mode=st.sampled_from(["int", "term", "kill"]))
    def cancel(self, pick: int, mode: str) -> None:
        jobs = self.env.plane.jobs(ended=True)
        if jobs:
            self.env.plane.cancel(jobs[pick % len(jobs)]["id"], mode=mode).result(0)

    @rule(name=st.sampled_from(["w1", "w2"]))
    def heartbeat(self, name: str) -> None:
        self._speak(self.env.workers[name])

    @rule(pick=st.integers(0, 9))
    def deliver_late(self, pick: int) -> None:
        if self.pending:
            worker, report = self.pending.pop(pick % len(self.pending))
            worker.say(report)

    @rule(name=st.sampled_from(["w1", "w2"]), keeps=st.booleans())
    def restart_worker(self, name: str, keeps: bool) -> None:
        self.env.workers[name].register(restarted=True, keeps=keeps)

    @rule()
    def restart_plane(self) -> None:
        self.env.restart_plane()

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0, 31.0, 700.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.env.clock.advance(seconds)

    @rule()
    def tick(self) -> None:
        self.env.reconcile()
        self.env.reconcile()

    @invariant()
    def laws_hold(self) -> None:
        if hasattr(self, "env"):
            self.env.check()

    def teardown(self) -> None:
        if not hasattr(self, "env"):
            return
        try:
            self._heal()
            self.env.check()
            assert self.env.plane.jobs() == [], "an accepted job did not end"
        finally:
            self.env.close()

    def _heal(self) -> None:
        """Faults stop: workers come back and do whatever they are given, and well."""
        self.env.worker("healer", cores=8, gpus=2)
        for _ in range(60):
            for worker in self.env.workers.values():
                self._speak(worker)
                worker.acquire()
                for held in list(worker.held.values()):
                    worker.report(worker.endings.get(held.task_id) or worker.ending(held))
                self._speak(worker)
            self.env.clock.advance(BACKOFF_CAP_SECONDS / 20)
            self.env.reconcile()
            self.env.run_pass()
            states = {job["state"] for job in self.env.plane.jobs(ended=True)}
            if states <= set(TERMINAL_JOB_STATES):
                return

    def _speak(self, worker: EnvWorker) -> None:
        if not worker.report().ok:
            worker.register()

    def _send(self, worker: EnvWorker, lost: bool, news: TaskReport) -> None:
        worker.seq += 1
        inventory = tuple(worker.held.values())
        report = Report(worker.name, worker.incarnation, worker.seq, inventory, (news,))
        if lost:
            self.pending.append((worker, report))
        else:
            worker.say(report)

    def _pick(self, worker: EnvWorker, pick: int, *phases: str) -> Held | None:
        found = [held for held in worker.held.values() if held.phase in phases]
        return found[pick % len(found)] if found else None


Lifecycle.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLifecycle = Lifecycle.TestCase
