"""Functions forked from a template: the same as cold, or cold; and what dies with whom."""

from __future__ import annotations

import fnmatch
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpulayer as gl
from gpulayer.runtime import cgroup, hierarchy, zygote_keys
from tests.support.supervisor import SupervisorHome, alive, eventually, kill_9, mark, wait_dead
from tests.support.warm import Calls, ask, is_template
from tests.unit.runtime.test_function_runner import PYTHONS

HAS_LEAVES = cgroup.find_parent("tests-ask") is not None
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not HAS_LEAVES, reason="control groups can't be written here"),
]

WORLD = """
    import os, resource, signal, sys, threading

    def world():
        return {
            "argv": [os.path.basename(word) for word in sys.argv],
            "path": sys.path,
            "environ": {n: ascii(v) for n, v in os.environ.items() if n != "GPULAYER_FENCE"},
            "order": [n for n in os.environ],
            "cwd": os.getcwd(),
            "umask": os.umask(0),
            "limits": {n: list(resource.getrlimit(getattr(resource, n)))
                       for n in dir(resource) if n.startswith("RLIMIT_")},
            "nice": os.nice(0),
            "handled": [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
            "masked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
            "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
            "parent": os.getppid(),
            "descriptors": [n for n in os.listdir("/proc/self/fd") if int(n) < 20],
            "streams": [[s.encoding, s.errors, s.line_buffering, s.write_through, s.mode, s.name,
                         s.isatty(), type(s.buffer).__name__] for s in
                        (sys.stdin, sys.stdout, sys.stderr)],
            "flags": str(sys.flags),
            "main": [sys.modules["__main__"].__file__, sys.modules["__main__"].__name__],
            "threads": threading.active_count(),
            "limit": sys.getrecursionlimit(),
            "executable": [sys.executable, sys.prefix, sys.base_prefix],
        }
"""
ENDS = """
    import atexit, os, signal, sys, threading

    class Told:
        def __init__(self, text):
            self.text = text
        def __del__(self):
            os.write(1, self.text)

    kept = Told(b"global ended\\n")

    def ends(how):
        if how != "closed":  # an error in such a call would show a line of ours
            atexit.register(print, "at exit")
        print("out", how)
        print("err", how, file=sys.stderr)
        if how == "raise":
            raise ValueError("no")
        if how == "exit":
            sys.exit(7)
        if how == "text":
            sys.exit("a last word")
        if how == "hard":
            os._exit(3)
        if how == "interrupt":
            raise KeyboardInterrupt
        if how == "kill":
            os.kill(os.getpid(), signal.SIGTERM)
        if how == "abort":
            os.abort()
        if how == "closed":
            os.close(1)
        if how == "thread":
            threading.Timer(0.05, print, ["late"]).start()
        if how == "nan":
            return float("nan")
        if how == "printed":
            sys.stdout.write("no newline")
        return how
"""
ADDRESS = re.compile("0x[0-9a-f]+")
HOWS = ("", "raise", "exit", "text", "hard", "interrupt", "kill", "abort", "closed", "thread",
        "nan", "printed")  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SupervisorHome]:
    with SupervisorHome(tmp_path, containment="cgroup") as made:
        yield made


@pytest.fixture
def calls(home: SupervisorHome) -> Calls:
    made = Calls(home)
    made.write("import os\ndef f(x):\n    return [x, os.getpid()]\n")
    return made


# --- the same as cold -----------------------------------------------------------------------


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: "-".join(Path(path).parts[-3::2]))
def test_a_forked_call_finds_the_world_of_a_cold_one(home: SupervisorHome, python: str) -> None:
    calls = Calls(home, python)
    calls.write(WORLD)
    envelope = home.envelope(umask=0o027, rlimits={"NOFILE": [333, 4000], "CORE": [0, -1]}, nice=3)
    envelope["environ"] += ["ZEBRA=1", "APPLE=\udcff", "LANG=C", "EMPTY="]
    said = {"envelope": envelope, "set": {"GPULAYER_JOB_ID": "j", "CUDA_VISIBLE_DEVICES": "GPU-1"}}
    cold = calls.call("world", **said)
    assert cold.cold
    forked = calls.forked("world", **said)
    assert forked.value == cold.value
    assert forked.value["parent"] == home.process.pid  # type: ignore[union-attr]


def test_each_way_to_end_is_that_of_a_cold_call(calls: Calls) -> None:
    calls.write(ENDS)
    cold = {how: calls.call("ends", how, unbuffered=True, warm={}) for how in HOWS}
    calls.forked("ends", "", unbuffered=True)
    for how in HOWS:
        forked = calls.call("ends", how, unbuffered=True)
        assert not forked.cold
        assert ADDRESS.sub("0x", repr(forked.seen)) == ADDRESS.sub("0x", repr(cold[how].seen)), how
        assert forked.ended.exit["signal"] == cold[how].ended.exit["signal"], how


def test_two_calls_draw_different_numbers_and_keep_nothing_of_each_other(calls: Calls) -> None:
    calls.write("""
        import random, uuid
        seen = []
        def draw():
            seen.append(1)
            return [len(seen), random.random(), str(uuid.uuid4())]
    """)
    first, second = (
        calls.forked("draw", preload=("random",)),
        calls.call("draw", preload=("random",)),
    )
    assert not second.cold
    assert first.value[0] == second.value[0] == 1
    assert first.value[1:] != second.value[1:]


def test_a_change_of_what_was_imported_is_seen_by_the_next_call(calls: Calls) -> None:
    calls.write("VERSION = 1", "local")
    calls.write("def version():\n    import local\n    return local.VERSION\n")
    assert calls.forked("version", preload=("local",)).value == 1
    calls.write("VERSION = 20", "local")
    changed = calls.call("version", preload=("local",))
    assert changed.value == 20
    assert "local.py has changed" in changed.cold
    assert calls.forked("version", preload=("local",)).value == 20


def test_another_environment_folder_or_umask_has_another_template(calls: Calls) -> None:
    calls.forked("f", 1)
    other = calls.home.envelope()
    for envelope in ({**other, "environ": [*other["environ"], "A=1"]}, {**other, "umask": 0o077}):
        assert calls.call("f", 1, envelope=envelope).cold
    assert not calls.call("f", 1, set={"GPULAYER_JOB_ID": "another"}).cold


# --- not sure: cold, and why ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import threading as t\nt.Thread(target=t.Event().wait, daemon=True).start()",
         "1 thread(s) run"),
        ("print('hello')", "printed something"),
        ("raise RuntimeError('broken')", "importing odd failed: RuntimeError: broken"),
        ("import os\nos._exit(0)", "ended while it imported"),
        ("import sys, socket\nsys.kept = socket.socketpair()", "a connection was left open"),
        ("import sys\nsys.settrace(lambda *_: None)", "a tracer or profiler is active"),
        ("import sys, io\nsys.stdout = io.StringIO()", "in the place of standard output"),
        ("import sys\nsys.path.insert(0, '/nowhere')", "changed sys.path"),
    ],
    ids=["thread", "output", "error", "exit", "socket", "tracer", "stdout", "path"],
)  # fmt: skip
def test_what_must_not_be_forked_starts_cold_and_says_why(
    calls: Calls, text: str, why: str
) -> None:
    calls.write(text, "odd")
    assert why in calls.refusal("f", 1, preload=("odd",))
    after = calls.call("f", 5, preload=("odd",))
    assert why in after.cold
    assert after.value[0] == 5
    eventually(lambda: not calls.templates())


def test_a_terminal_two_values_or_a_hidden_secret_is_cold(calls: Calls) -> None:
    calls.forked("f", 1)
    world = calls.home.envelope()
    twice = {**world, "environ": [*world["environ"], "A=1", "A=2"]}
    assert "set twice" in calls.call("f", 1, envelope=twice).cold
    relative = {**world, "environ": [*world["environ"], "PYTHONPATH=src"]}
    assert "PYTHONPATH is relative" in calls.call("f", 1, envelope=relative).cold
    said = {"set": {"URL": "http://me:hushhush@host"}, "redact": [["TOKEN", "hushhush"]]}
    assert "part of another variable" in calls.call("f", 1, **said).cold


def test_without_leaves_it_is_cold_and_says_so(tmp_path: Path) -> None:
    with SupervisorHome(tmp_path, containment="keeper") as home:
        calls = Calls(home)
        calls.write("def f(x):\n    return x\n")
        assert [calls.call("f", n).cold for n in (1, 2)] == [
            "nothing here holds a forked process"
        ] * 2


def test_a_folder_that_is_gone_is_refused_as_ever(calls: Calls) -> None:
    calls.forked("f", 1)
    task = calls.task("f", 1)
    for path in calls.home.folder.iterdir():
        path.unlink() if path.is_file() else None
    os.rename(calls.home.folder, calls.home.folder.with_name("moved"))
    calls.agent.send_json({"op": "start", "seq": 77, "task": task})
    _, reply, _ = calls.agent.recv()
    assert reply["error"]["code"] == "folder-gone"


# --- secrets --------------------------------------------------------------------------------


def test_a_secret_reaches_its_call_and_never_the_template(calls: Calls) -> None:
    calls.write(
        "import os\ndef secret():\n    x = os.environ['TOKEN']\n    print(x)\n    return len(x)\n"
    )
    value = "s3cr3t-" + os.urandom(8).hex()
    said = {"set": {"TOKEN": value}, "redact": [["TOKEN", value]]}
    done = calls.forked("secret", **said)
    assert done.value == len(value)
    assert value.encode() not in done.ended.log
    (template,) = calls.templates()
    assert value.encode() not in Path(f"/proc/{template}/environ").read_bytes()
    for pid in calls.with_spares():
        assert not is_in_memory(pid, value.encode())
    assert is_in_memory(template, b"zygote.py")


def is_in_memory(pid: int, text: bytes) -> bool:
    """Whether it stands anywhere in what the process may write (proc_pid_mem(5))."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            places, mode = line.split()[:2]
            if not mode.startswith("rw"):
                continue
            start, end = (int(place, 16) for place in places.split("-"))
            memory.seek(start)
            try:
                if text in memory.read(end - start):
                    return True
            except OSError:
                continue
    return False


# --- what dies with whom --------------------------------------------------------------------


def test_a_killed_template_costs_nothing_but_a_cold_start(calls: Calls) -> None:
    calls.forked("f", 1)
    (template,) = calls.templates()
    kill_9(template)
    after = calls.call("f", 2)
    assert after.cold
    assert after.value[0] == 2
    assert calls.forked("f", 3).value[0] == 3


def test_a_template_killed_in_the_midst_of_a_fork_runs_its_call_once(calls: Calls) -> None:
    ran = calls.home.folder / "ran"
    calls.write(
        f"def once():\n    open({str(ran)!r}, 'a').write('x')\n    return 1\ndef f(x): return x\n"
    )
    calls.forked("f", 1)
    held = calls.with_spares()
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    task = calls.task("once")
    ask(calls.agent, task)
    for pid in held:
        os.kill(pid, signal.SIGKILL)
    _, reply, _ = calls.agent.recv()
    assert reply["cold"] == "its warm process was killed"
    assert calls.end(task).value == 1
    assert ran.read_text() == "x"


def test_a_template_that_does_not_answer_is_ended(calls: Calls) -> None:
    calls.forked("f", 1)
    (template,) = calls.templates()
    for pid in calls.with_spares():
        os.kill(pid, signal.SIGSTOP)
    after = calls.call("f", 2)
    assert after.cold == "its warm process does not answer"
    assert after.value[0] == 2
    wait_dead(template)


def test_a_killed_call_leaves_its_template_and_a_killed_job_all_its_processes(calls: Calls) -> None:
    stray = mark("76.5")
    calls.write(f"""
        import os, subprocess, time
        def family():
            subprocess.Popen(["sleep", {stray!r}], start_new_session=True, env={{}})
            print("ready", flush=True)
            time.sleep(1000)
        def f(x): return x
    """)
    calls.forked("f", 1)
    templates = calls.templates()
    task = calls.task("family")
    assert not calls.start(task)
    calls.home.follow_once(calls.agent, task["task_id"])
    calls.agent.call("cancel", task_id=task["task_id"], mode="term", grace_seconds=0.1)
    done = calls.end(task)
    assert done.ended.exit["outcome"] == "cancelled"
    assert not alive(stray)
    assert calls.templates() == templates
    assert not calls.call("f", 2).cold


@pytest.mark.parametrize("point", ["zygote-forked", "zygote-opened"])
def test_nothing_outlives_a_supervisor_that_dies(home: SupervisorHome, point: str) -> None:
    home.stop()
    marker = home.folder.parent / "crash"
    home.start(env={"GPULAYER_CRASH_AT": f"{point}={marker}"})
    calls = Calls(home)
    ran = home.folder / "ran"
    calls.write(
        f"import time\ndef f():\n    open({str(ran)!r}, 'a').write('x')\n    time.sleep(1000)\n"
        "def g(): pass\n"
    )
    calls.forked("g")
    templates = calls.templates()
    marker.touch()
    task = calls.task("f")
    ask(calls.agent, task)
    assert home.process is not None
    assert home.process.wait(60) == -signal.SIGKILL
    home.process = None
    for template in templates:
        wait_dead(template)
    home.start()
    again = home.connect("agent")
    eventually(lambda: all(t["state"] == "exited" for t in again.call("list")["tasks"]))
    ends = {t["task_id"]: t["exit"]["outcome"] for t in again.call("list")["tasks"]}
    assert ends[task["task_id"]] == "lost"
    if point == "zygote-forked":
        assert not ran.exists()


def test_a_supervisor_that_leaves_takes_its_templates_along(calls: Calls) -> None:
    calls.forked("f", 1)
    (template,) = calls.templates()
    assert is_template(template)
    (tree,) = (place for kind, place, _ in hierarchy.mounts() if kind == "cgroup2")
    lines = Path(f"/proc/{template}/cgroup").read_text().splitlines()
    boxes = Path(tree + next(line for line in lines if "/zygote." in line)[3:]).parent
    assert boxes.is_dir()
    os.kill(template, signal.SIGKILL)  # its spare outlives it for a moment, in a box of both
    wait_dead(template, 5)
    calls.home.stop()
    assert not boxes.exists()
    calls.home.process = None
    calls.home.start()


# --- from Python ----------------------------------------------------------------------------


def test_a_job_that_names_modules_says_how_it_began(tmp_path: Path) -> None:
    work = {"kind": "function", "entrypoint": "fnmatch:translate", "args": ["*.py"]}
    spec = {"workload": work, "environment": {"preload": ["decimal"]}}
    notes: list[str] = []
    with gl.connect(embedded=str(tmp_path / "home")) as client:

        def is_forked() -> bool:
            job = client.submit_specs([spec])[0]
            assert job.result() == fnmatch.translate("*.py")
            told = job.preparation
            assert told is not None
            notes.append(told["steps"][-1]["note"])
            return notes[-1] == "forked with decimal imported"

        eventually(is_forked)
    assert notes[0] == "cold: its warm process begins with it"


# --- bounds ---------------------------------------------------------------------------------


def test_the_least_recently_used_goes_first(calls: Calls) -> None:
    def world(number: int) -> dict[str, object]:
        made = calls.home.envelope()
        return {**made, "environ": [*made["environ"], f"NUMBER={number}"]}

    for number in range(zygote_keys.MOST):
        calls.forked("f", number, envelope=world(number))
    assert len(calls.templates()) == zygote_keys.MOST
    assert not calls.call("f", 0, envelope=world(0)).cold
    calls.forked("f", 99, envelope=world(99))
    eventually(lambda: len(calls.templates()) == zygote_keys.MOST)
    assert not calls.call("f", 0, envelope=world(0)).cold
    assert calls.call("f", 1, envelope=world(1)).cold


def test_one_that_nobody_calls_goes(home: SupervisorHome) -> None:
    home.stop()
    home.more = ["--zygote-seconds", "0.4"]
    home.start()
    calls = Calls(home)
    calls.write("def f(x):\n    return x\n")
    calls.forked("f", 1)
    eventually(lambda: not calls.templates())
    assert calls.forked("f", 1).value == 1


def test_one_that_holds_too_much_is_not_kept_and_says_so(home: SupervisorHome) -> None:
    home.stop()
    home.more = ["--zygote-bytes", str(32 << 20)]
    home.start()
    calls = Calls(home)
    calls.write("def f(x):\n    return x\n")
    calls.write("kept = bytearray(40 << 20)\nkept[::512] = b'x' * len(kept[::512])\n", "large")
    why = calls.refusal("f", 1, preload=("large",))
    assert why == "what it imports takes more than 32 MiB"
    eventually(lambda: not calls.templates())
    assert calls.forked("f", 2).value == 2
