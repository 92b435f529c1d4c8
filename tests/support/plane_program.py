"""A plane in a process of its own, for tests that kill or stop it: words in, lines out.

submit NAME      -> the job's id
die POINT        kill -9 at the next passing of this point of a commit
stop POINT       SIGSTOP at it
passes           -> how many jobs one scheduling pass moves
scheduler        -> the plane that schedules: `me` or `not me`
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


class PlaneProcess:
    """Seen from the test."""

    def __init__(self, address: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.plane_program", address, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.hear() == "ready"

    def say(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, *words: str) -> str:
        self.say(*words)
        return self.hear()

    def wait_until_stopped(self) -> None:
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        self.process.wait(60)
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                end.close()


def main(address: str, folder: str) -> None:
    from gpulayer.artifacts.store import LocalArtifacts
    from gpulayer.clock import SystemClock, SystemIds
    from gpulayer.control_plane.plane import ControlPlane
    from gpulayer.control_plane.settings import Settings
    from gpulayer.control_plane.submission import Submission
    from gpulayer.control_plane.wakeups import Wakeups
    from gpulayer.storage.logs import LogFolder
    from gpulayer.storage.store import Store

    asked: dict[str, signal.Signals] = {}
    armed: dict[str, signal.Signals] = {}

    class Names(SystemIds):
        """A name is given inside the transaction of a submit: from there on it counts."""

        def token(self, length: int) -> str:
            armed.update(asked)
            asked.clear()
            return super().token(length)

    def fault(point: str) -> None:
        sent = armed.pop(point, None)
        if sent is not None:
            signal.pthread_kill(threading.get_ident(), sent)  # this thread goes no step further

    store = Store(address, durability="power", fault=fault, home="program")
    wakeups = Wakeups()
    settings = Settings(plane=store.plane, home="program")
    artifacts = LocalArtifacts(Path(folder) / "artifacts")
    logs = LogFolder(Path(folder) / "logs")
    plane = ControlPlane(store, SystemClock(), Names(), wakeups, logs, artifacts, settings)
    news = store.open_news(plane.hear)
    assert news is not None
    wakeups.relay = news.tell
    plane.reconcile().result()
    gone = threading.Event()

    def tick() -> None:
        while not gone.wait(0.5):
            plane.reconcile().result()

    threading.Thread(target=tick, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        word, *more = line.split()
        if word == "submit":
            spec = {
                "name": more[0],
                "workload": {"kind": "command", "command": ["true"]},
                "resources": {"cpu_cores": 1.0},
            }
            print(plane.submit([Submission(spec, {}, more[0])]).result()[0].id, flush=True)
        elif word in ("die", "stop"):
            asked[more[0]] = signal.SIGKILL if word == "die" else signal.SIGSTOP
        elif word == "passes":
            print(plane.dispatch().result().moved, flush=True)
        elif word == "scheduler":
            with store.read() as reader:
                it = reader.scheduling().plane
            print("me" if it == store.plane else "not me", flush=True)
    gone.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
