"""The driver with a real supervisor and real processes, and a plane of few words."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.messages import Errand
from gpulayer.runtime import segments
from gpulayer.worker.lock import WorkerLock
from gpulayer.worker.process import Outside, Worker
from tests.support.supervisor import SupervisorHome
from tests.unit.worker.scripted_plane import ScriptedPlane, Told

FINISH_SECONDS = 60.0


class Bench:
    """A home with a supervisor, a plane, and one worker after another."""

    def __init__(self, home: SupervisorHome) -> None:
        self.home = home
        self.allowed = home.home / "secrets.json"
        self.plane = ScriptedPlane()
        self.errors: list[BaseException] = []
        self.planes_wanted = threading.Event()
        self.worker: Worker | None = None

    def start(self) -> Worker:
        outside = Outside(
            lock=str(self.home.home / "agent.lock"),
            tasks=str(self.home.home / "tasks"),
            supervisor_socket=self.home.socket,
            start_supervisor=self._start_supervisor,
            start_plane=self.planes_wanted.set,
            on_error=self.errors.append,
            secrets=str(self.allowed),
        )
        self.worker = Worker(self.plane, outside, SystemClock(), SystemIds())
        assert self.worker.start()
        return self.worker

    def restart(self) -> None:
        """As after a kill: the next agent finds what there is."""
        assert self.worker is not None
        self.worker.stop()
        self.plane.reopen()
        self.start()

    def sh(self, text: str, **fields: Any) -> str:
        spec = fields.pop("spec", {})
        workload = {"kind": "command", "command": ["sh", "-c", text]}
        return self.plane.hand_out({"workload": workload, **spec}, **fields)

    def _start_supervisor(self) -> None:
        if self.home.process is None:
            self.home.start()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with SupervisorHome(tmp_path) as home:
        bench = Bench(home)
        bench.start()
        try:
            yield bench
        finally:
            assert bench.worker is not None
            bench.worker.stop()


def printed(told: Told) -> bytes:
    return b"".join(r.data for r in segments.decode(bytes(told.log)) if r.stream == segments.STDOUT)


def eventually(holds: Callable[[], Any]) -> None:
    """For what no signal tells of: files that go away."""
    for _ in range(12_000):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("not in time")


def test_a_command_runs_and_costs_one_report(bench: Bench) -> None:
    """On a busy machine one may last so long that what it says is shown before; not all of many."""
    plane, costs = bench.plane, []
    plane.ended(bench.sh("true"))
    while (0, True) not in costs:
        assert len(costs) < 50, costs
        reports, shipments = len(plane.reports), plane.shipments
        told = plane.ended(bench.sh("echo out; echo err >&2; exit 3"))
        costs.append((plane.shipments - shipments, len(plane.reports) - reports <= 2))
        assert told.exit is not None
        assert (told.exit.outcome, told.exit.exit_code) == ("failed", 3)
        assert {r.data for r in segments.decode(bytes(told.log))} == {b"out\n", b"err\n"}
        assert told.phases[-1] == "exited"


def test_nothing_is_left_of_a_task_that_is_recorded(bench: Bench) -> None:
    bench.plane.ended(bench.sh("mkdir -p $GPULAYER_WORKSPACE/x $GPULAYER_OUTPUT_DIR/y"))
    eventually(lambda: not os.listdir(bench.home.home / "tasks"))


def test_a_new_file_in_a_workspace_is_told_and_stays(bench: Bench) -> None:
    task = bench.sh("echo new > $GPULAYER_WORKSPACE/x; echo home > $GPULAYER_OUTPUT_DIR/y")
    told = bench.plane.ended(task)
    assert told.exit is not None
    assert told.exit.left == {"count": 1, "bytes": 4, "paths": ["x"]}
    eventually(lambda: os.listdir(bench.home.home / "tasks" / task) == ["work"])


def test_folders_of_tasks_of_which_nobody_knows_are_removed_by_the_next_agent(bench: Bench) -> None:
    gate = bench.home.folder / "gate"
    os.mkfifo(gate)
    task = bench.sh(f"read line < {gate}")
    bench.plane.until(lambda: "running" in bench.plane.tasks[task].phases)
    (bench.home.home / "tasks" / "t999" / "work").mkdir(parents=True)
    bench.restart()
    eventually(lambda: not (bench.home.home / "tasks" / "t999").exists())
    assert (bench.home.home / "tasks" / task / "work").exists()
    gate.write_text("go\n")
    assert bench.plane.ended(task).exit is not None


def needing(bench: Bench, data: bytes) -> tuple[str, str]:
    """A task that shows an input which nobody has yet, and the input's digest."""
    digest = hashlib.sha256(data).hexdigest()
    inputs = [{"artifact": f"artifact://sha256/{digest}", "path": "x"}]
    return bench.sh("cat $GPULAYER_INPUT_DIR/x", spec={"inputs": inputs}), digest


def test_an_input_waits_for_a_plane_that_is_away(bench: Bench) -> None:
    """However often asking for it fails: the task has begun for nobody, so it is not failed."""
    bench.plane.cut_off.add(hashlib.sha256(b"data").hexdigest())
    task, digest = needing(bench, b"data")
    bench.plane.until(lambda: bench.plane.asked.count(digest) >= 2)
    bench.plane.give(digest, b"data")
    told = bench.plane.ended(task)
    assert told.exit is not None
    assert (told.exit.outcome, printed(told)) == ("succeeded", b"data")


def test_a_task_that_waits_for_its_input_can_be_cancelled(bench: Bench) -> None:
    bench.plane.cut_off.add(hashlib.sha256(b"data").hexdigest())
    task, digest = needing(bench, b"data")
    bench.plane.until(lambda: bench.plane.asked.count(digest) >= 1)
    bench.plane.cancel(task)
    told = bench.plane.ended(task)
    assert told.exit is not None
    assert told.exit.outcome == "cancelled"


def test_an_input_that_no_plane_has_ends_the_task_before_it_begins(bench: Bench) -> None:
    task, _ = needing(bench, b"absent")
    told = bench.plane.ended(task)
    assert told.exit is not None
    assert (told.exit.outcome, told.exit.reason) == ("failed", "preparation")
    assert told.exit.error is not None
    assert told.exit.error["slug"] == "artifact-not-found"


def test_many_at_once_share_reports(bench: Bench) -> None:
    tasks = [bench.sh("true") for _ in range(40)]
    for task in tasks:
        assert bench.plane.ended(task).exit is not None
    assert len(bench.plane.reports) < 2 * len(tasks)
    assert not bench.errors


def test_a_long_log_arrives_whole(bench: Bench) -> None:
    told = bench.plane.ended(bench.sh("seq 1 200000"))
    assert printed(told) == b"".join(b"%d\n" % n for n in range(1, 200_001))
    assert told.log_size == len(told.log)
    assert not told.inline


def test_what_is_printed_is_shown_while_it_runs(bench: Bench) -> None:
    task = bench.sh("echo begin; exec sleep 60")
    bench.plane.until(lambda: b"begin" in bench.plane.tasks[task].log)
    bench.plane.cancel(task, "kill")
    told = bench.plane.ended(task)
    assert told.exit is not None
    assert told.exit.outcome == "cancelled"


def test_outputs_are_stored_before_the_end_is_told(bench: Bench) -> None:
    told = bench.plane.ended(bench.sh("echo model > $GPULAYER_OUTPUT_DIR/m.txt"))
    assert told.exit is not None
    (output,) = told.exit.outputs
    assert output["path"] == "m.txt"
    assert bench.plane.artifacts[output["digest"]] == b"model\n"


def test_a_function_gives_back_its_value_or_its_error(bench: Bench) -> None:
    def call(entrypoint: str, *args: Any) -> Told:
        workload = {"kind": "function", "entrypoint": entrypoint, "args": list(args)}
        return bench.plane.ended(bench.plane.hand_out({"workload": workload}))

    done = call("math:gcd", 12, 18).exit
    assert done is not None
    assert (done.outcome, done.value) == ("succeeded", "6")
    failed = call("math:sqrt", -1).exit
    assert failed is not None
    assert (failed.outcome, failed.reason, failed.exit_code) == ("failed", "exception", 1)
    assert failed.error is not None
    assert failed.error["type"] == "ValueError"


def test_a_step_that_fails_ends_the_task_before_it_began(bench: Bench) -> None:
    spec = {"secrets": [{"name": "KEY", "source": "env", "key": "GPULAYER_TEST_ABSENT"}]}
    end = bench.plane.ended(bench.sh("true", spec=spec)).exit
    assert end is not None
    assert (end.reason, end.exit_code, end.started_at) == ("secret_missing", 126, None)


def test_a_secret_is_not_seen_in_the_log(bench: Bench, tmp_path: Path) -> None:
    for path, text in (
        (tmp_path / "key", "hunter2hunter2\n"),
        (bench.allowed, json.dumps({"hf": f"file:{tmp_path / 'key'}"})),
    ):
        path.write_text(text)
        path.chmod(0o600)
    spec = {"secrets": [{"name": "KEY", "source": "env", "key": "hf"}]}
    told = bench.plane.ended(bench.sh('echo "<$KEY>"', spec=spec))
    assert printed(told) == b"<[redacted:KEY]>\n"


def test_a_new_agent_goes_on_where_the_last_one_was_and_no_byte_is_lost(bench: Bench) -> None:
    gate = bench.home.folder / "gate"
    os.mkfifo(gate)
    task = bench.sh(f"seq 1 5000; read line < {gate}; seq 5001 9000; exit 7")
    bench.plane.until(lambda: printed(bench.plane.tasks[task]).endswith(b"5000\n"))
    bench.restart()
    gate.write_text("go\n")
    told = bench.plane.ended(task)
    assert told.exit is not None
    assert told.exit.exit_code == 7
    assert printed(told) == b"".join(b"%d\n" % n for n in range(1, 9001))
    assert [line.task_id for line in bench.plane.registers[-1].inventory] == [task]


def test_an_end_that_nobody_heard_is_told_to_the_next_plane(bench: Bench) -> None:
    gate = bench.home.folder / "gate"
    os.mkfifo(gate)
    task = bench.sh(f"read line < {gate}; echo over")
    bench.plane.until(lambda: "running" in bench.plane.tasks[task].phases)
    bench.plane.go(away=True)
    gate.write_text("go\n")
    eventually(lambda: bench.plane.refused > 2)
    bench.plane.go(away=False)
    told = bench.plane.ended(task)
    assert printed(told) == b"over\n"


def test_a_plane_that_stays_away_is_started(bench: Bench) -> None:
    bench.plane.until(lambda: bench.plane.registers)
    bench.plane.go(away=True)
    assert bench.planes_wanted.wait(FINISH_SECONDS)


def test_a_killed_supervisor_is_replaced_and_its_tasks_are_lost(bench: Bench) -> None:
    task = bench.sh("echo begin; exec sleep 600")
    bench.plane.until(lambda: b"begin" in bench.plane.tasks[task].log)
    bench.home.kill()
    end = bench.plane.ended(task).exit
    assert end is not None
    assert (end.outcome, end.reason) == ("lost", "supervisor_lost")
    again = bench.plane.ended(bench.sh("echo again"))
    assert printed(again) == b"again\n"


def test_there_is_one_worker_for_a_home(bench: Bench) -> None:
    lock = WorkerLock(str(bench.home.home / "agent.lock"))
    assert not lock.take()
    assert bench.worker is not None
    bench.worker.stop()
    assert lock.take()
    assert lock.in_place()
    os.unlink(bench.home.home / "agent.lock")
    assert not lock.in_place()
    lock.release()


def test_it_leaves_with_its_supervisor_when_told_to(bench: Bench) -> None:
    bench.plane.until(lambda: bench.plane.registers)
    bench.plane.leave()
    assert bench.worker is not None
    bench.worker.stay()
    assert bench.home.process is not None
    bench.home.process.wait(FINISH_SECONDS)
    with socket.socket(socket.AF_UNIX) as probe:
        assert probe.connect_ex(bench.home.socket) != 0


def test_stopping_ends_every_thread(bench: Bench) -> None:
    bench.plane.ended(bench.sh("true"))
    assert bench.worker is not None
    bench.worker.stop()
    ours = ("gpulayer-supervisor", "gpulayer-reports", "gpulayer-acquires", "gpulayer-logs")
    assert [t.name for t in threading.enumerate() if t.name.startswith(ours)] == []


def test_an_errand_is_done_beside_the_tasks_and_answered(bench: Bench) -> None:
    task = bench.sh("echo ready; exec sleep 1000")
    bench.plane.until(lambda: bench.plane.tasks[task].log)
    bench.plane.ask(Errand("e1", "caches"))
    (done,) = bench.plane.until(lambda: bench.plane.answers)
    assert (done.errand_id, done.why) == ("e1", "")
    assert done.answer == {
        "environments": [],
        "images": [],
        "artifacts": {"count": 0, "bytes": 0},
        "workspaces": {"count": 0, "bytes": 0},
    }
    bench.plane.ask(Errand("e2", "dance"))
    bench.plane.until(lambda: len(bench.plane.answers) == 2)
    assert "dance" in bench.plane.answers[1].why
    bench.plane.cancel(task, "kill")
    bench.plane.ended(task)
