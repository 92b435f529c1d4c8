"""Prepares a task, step by step, and gathers what it left.

STEPS       before the start, in this order; what a failed one allocated is taken back
collect     after the end: a function's result, the output folder as artifacts
forget      once the end is recorded: nothing of the task is left here
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from gpulayer.artifacts import collect
from gpulayer.clock import Clock
from gpulayer.contracts.messages import Assignment, Exit, Preparation, PreparedStep
from gpulayer.gpu.discovery import discover_fast
from gpulayer.gpu.machine import Machine
from gpulayer.runtime import segments
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.environments.building import TakenBackError
from gpulayer.worker.environments.store import Environments
from gpulayer.worker.images.store import Images
from gpulayer.worker.instructions import Collect, LookAtRun
from gpulayer.worker.secrets.book import Book
from gpulayer.worker.slot import note_of
from gpulayer.worker.steps import (
    data_sets,
    ending,
    environ,
    environment,
    fetching,
    hiding,
    image,
    plan,
    restoring,
    running,
    secrets,
    staging,
    visibility,
    workload,
    workspace,
)
from gpulayer.worker.steps.plan import UNWATCHED, TaskPlan, Watch
from gpulayer.worker.steps.spares import Spares
from gpulayer.worker.supervisor_link import SupervisorGone
from gpulayer.worker.worlds import Worlds

LOG_BYTES = 1 << 30

STEPS: tuple[Callable[[TaskPlan], None], ...] = (
    workspace.make,
    environ.fill,
    visibility.limit,
    data_sets.provide,
    staging.source,
    staging.inputs,
    staging.stdin,
    restoring.restore,
    secrets.resolve,
    environment.provide,
    image.provide,
    workload.choose,
    image.wrap,
)


class Supervisor(Protocol):
    def call(self, op: str, **fields: Any) -> dict[str, Any]: ...


class TaskRunner:
    """Safe to share between threads; tasks do not touch each other's folders."""

    def __init__(
        self,
        folder: str,
        clock: Clock,
        *,
        interpreter: str,
        environ: Mapping[str, str],
        artifacts: ArtifactCache,
        environments: Environments,
        worker: str = "",
        data: Mapping[str, str] | None = None,
        secrets_allowed: Book | None = None,
        images: Images | None = None,
        worlds: Worlds | None = None,
    ) -> None:
        """`folder` holds one folder per task. `environ`, `interpreter`, the name `worker`,
        `data` (where each data set is) and `secrets_allowed` (None: none) are the worker's."""
        self._folder = folder
        self._spares = Spares(folder)
        self._clock = clock
        self._artifacts = artifacts
        self._interpreter = interpreter
        self._environ = environ
        self._data = data or {}
        self._book = secrets_allowed or Book("", environ, clock)
        self._environments = environments
        self._images = images
        self._worker = worker
        self.worlds = worlds or Worlds(worker, partial(discover_fast, Machine()))

    def prepare(
        self, assignment: Assignment, supervisor: Supervisor, watch: Watch = UNWATCHED
    ) -> dict[str, Any]:
        """The `task` of the supervisor's `start`. Raises a `GPULayerError` or an `OSError` when
        a step could not do its part; nothing is left of the task then. `ConnectionError`: there
        is no plane to give what the job needs now; ask again."""

        def lookup(envelope_id: str, names: Sequence[str]) -> Mapping[str, str | None]:
            answer = supervisor.call("environ", envelope_id=envelope_id, names=list(names))
            return answer["values"]  # type: ignore[no-any-return]

        task = TaskPlan(
            assignment,
            self._folder_of(assignment.task_id),
            self._interpreter,
            self._environ,
            lookup,
            self._artifacts,
            self._environments,
            self._worker,
            self._clock,
            watch,
            self._book,
            self._data,
            self._images,
            self._spares.take,
        )
        told = self._told_steps(assignment)
        spent: dict[str, float] = {}
        try:
            for step in STEPS:
                began = self._clock.monotonic() if told else 0.0
                step(task)
                if step in told:
                    spent[told[step]] = self._clock.monotonic() - began
        except (SupervisorGone, TakenBackError):
            raise  # it is prepared again, perhaps already; or forgotten, which removes its folder
        except BaseException:
            task.undo.close()
            raise
        task.undo.pop_all()
        message = _start_message(task, _preparation(task, spent))
        message["note"]["world"] = self.worlds.of(task)
        return message

    def is_plain(self, assignment: Assignment) -> bool:
        """Whether `prepare` asks nobody and looks at no path that the job chose."""
        spec, workload = assignment.spec, assignment.spec["workload"]
        brings = spec.get("secrets") or spec.get("data") or spec.get("checkpoint")
        brings = brings or self._told_steps(assignment)
        return workload["kind"] == "command" and workload["command"][0] != "python" and not brings

    def waits_long(self, assignment: Assignment) -> bool:
        """Whether `prepare` may take minutes."""
        long = {environment.provide, secrets.resolve, image.provide, restoring.restore}
        if fetching.is_needed(assignment.spec):
            return True
        return not long.isdisjoint(self._told_steps(assignment))

    def refused(self, error: Exception) -> Exit:
        """The end of a task that never began because of `error`."""
        return ending.of_refusal(error, self._clock.now())

    def collect_plain(self, order: Collect) -> Exit | None:
        """The end of a command that left nothing but its exit; None: `collect` has work to do."""
        note = order.note
        if note.get("image") or "last" in note:
            return None  # its engine may have something to say, or its elements have
        if note.get("kind") != "command" or note.get("secrets") or note.get("outputs"):
            return None
        if not note.get("folder"):
            return None  # it ran in its workspace, where something may be left
        folder = self._folder_of(order.task_id)
        if not workspace.is_empty(plan.outputs(folder)):
            return None
        if os.path.lexists(plan.metrics_file(folder)):
            return None
        return ending.of_process(order.exit)

    def collect(self, order: Collect, channel: WorkerChannel, clean: hiding.Clean) -> Exit:
        """The end with all that the task left. `ConnectionError`: there is no plane to take the
        outputs now; `SupervisorGone`: nobody to ask about its secrets; ask again."""
        folder = self._folder_of(order.task_id)
        end = ending.of_process(order.exit)
        if "last" in order.note:
            each = running.ends(folder, order.note, lambda left: collect.outputs(left, channel))
            return dataclasses.replace(end, elements=tuple(each))
        if order.note.get("image"):
            end = self._of_container(end, folder)
        if order.note.get("kind") == "function":
            end = ending.with_result(end, plan.result_file(folder))
        elif order.note.get("kind") == "distributed":
            end = ending.of_ranks(end, plan.ranks(folder))
        own, work = str(order.note.get("folder") or ""), plan.workspace(folder)
        patterns = order.note.get("outputs") or ()
        found = collect.outputs(
            plan.outputs(folder), channel, elsewhere=own or work, patterns=patterns
        )
        end = ending.with_outputs(end, found.outputs, found.note)
        if not own:
            taken = {str(output["path"]) for output in found.outputs} if patterns else set()
            left = collect.left_behind(work, plan.staged(folder) | taken)
            end = dataclasses.replace(end, left=left)
        return hiding.without_secrets(end, clean) if order.note.get("secrets") else end

    def done(self, order: LookAtRun) -> tuple[Mapping[str, Any], ...]:
        """The elements of a run that have succeeded so far."""
        return tuple(running.done(self._folder_of(order.task_id), order.note))

    def checkpoint_folder(self, task_id: str, note: Mapping[str, Any]) -> str:
        """Of a task whose note names one."""
        own = str(note.get("folder") or "")
        return restoring.folder_of(self._folder_of(task_id), own, note["checkpoint"])

    def metrics_file(self, task_id: str) -> str:
        """Where it reports; it need not be there."""
        return plan.metrics_file(self._folder_of(task_id))

    def _of_container(self, end: Exit, folder: str) -> Exit:
        told = ending.of_container(end, image.end_file(folder))
        if told is not end and self._images is not None:
            self._images.doubt()
        return told

    def forget_empty(self, task_id: str) -> bool:
        """Keep what is left for another task, or remove it, where that is nothing but empty
        folders; False: `forget` must."""
        folder = self._folder_of(task_id)
        return self._spares.keep(folder) or workspace.remove_empty(folder)

    def forget(self, task_id: str) -> None:
        workspace.let_go(self._folder_of(task_id))

    def _told_steps(self, assignment: Assignment) -> dict[Callable[[TaskPlan], None], str]:
        """The steps that have something to do for what the job brings, by the names that people
        see."""
        spec = assignment.spec
        runs = spec.get("secrets") and secrets.has_command(spec, self._book)
        brings = {
            staging.source: ("source", spec["workload"].get("source")),
            staging.inputs: ("inputs", spec.get("inputs")),
            staging.stdin: ("stdin", spec.get("stdin")),
            restoring.restore: (restoring.PHASE, assignment.checkpoints),
            secrets.resolve: (secrets.PHASE, runs),
            environment.provide: (environment.PHASE, environment.is_asked(spec)),
            image.provide: (image.PHASE, spec.get("image")),
        }
        return {step: name for step, (name, brought) in brings.items() if brought}

    def _folder_of(self, task_id: str) -> str:
        return os.path.join(self._folder, task_id)


def _preparation(task: TaskPlan, spent: Mapping[str, float]) -> Preparation | None:
    """What the plane is told of it."""
    if not spent:
        return None
    steps = [
        PreparedStep(name, round(seconds, 4), task.notes.get(name, ""))
        for name, seconds in spent.items()
    ]
    return Preparation(round(sum(spent.values()), 4), tuple(steps))


def _start_message(task: TaskPlan, preparation: Preparation | None) -> dict[str, Any]:
    assignment = task.assignment
    attach_id = assignment.origin.get("attach_id")
    attached = attach_id is not None and assignment.attempt == 1
    return {
        "task_id": assignment.task_id,
        "fence": assignment.fence,
        "job_id": assignment.job_id,
        "index": assignment.index,
        "attempt": assignment.attempt,
        "argv": task.argv,
        "envelope_id": assignment.envelope_id,
        "attach_id": attach_id,
        "environ": task.whole,
        "set": task.set,
        "unset": [name for name in task.unset if name not in task.set],
        "cwd": task.cwd,
        "timeout_seconds": None if assignment.run else assignment.timeout_seconds,
        "grace_seconds": plan.GRACE_SECONDS,
        "redact": [list(pair) for pair in task.redact],
        "stdin": task.stdin or ("attach" if attached else "null"),
        "unbuffered": attach_id is None,
        **({"outside": task.outside} if task.outside else {}),
        **({"warm": task.warm} if task.warm else {}),
        **({"records": True} if assignment.run else {}),
        **({"pipes": task.pipes, "rank": segments.LAUNCHER} if task.pipes else {}),
        "log_limit_bytes": LOG_BYTES,
        "note": note_of(assignment)
        | ({"rendezvous": place} if (place := task.rendezvous) else {})
        | ({"preparation": preparation.to_json()} if preparation else {}),
    }
