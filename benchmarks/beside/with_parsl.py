"""Parsl: its high-throughput executor on this machine, two workers."""

from __future__ import annotations

import os
import sys
import tempfile
import time

import telling

BEGUN = time.perf_counter()


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    import parsl
    from parsl import bash_app, python_app
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor
    from parsl.providers import LocalProvider

    executor = HighThroughputExecutor(
        label="here", address="127.0.0.1", loopback_address="127.0.0.1", encrypted=False,
        max_workers_per_node=2, cores_per_worker=1,
        provider=LocalProvider(init_blocks=1, max_blocks=1),
    )  # fmt: skip
    parsl.load(Config(executors=[executor], usage_tracking=0, strategy="none",
                      initialize_logging=False))  # fmt: skip

    @python_app
    def noop(i=0):
        return None

    @python_app
    def true(i=0):
        import subprocess

        return subprocess.run(["/bin/true"], check=True).returncode

    @bash_app
    def command():
        return "/bin/true"

    def many(app, count):
        return lambda: [future.result() for future in [app(i) for i in range(count)]]

    noop().result()
    telling.cold(BEGUN)
    telling.memory()
    telling.call("call", lambda: noop().result(), 200, 20)
    telling.rate("submits", many(noop, 10_000), 10_000, 2)
    telling.call("command", lambda: command().result(), 100)
    telling.rate("commands", many(true, 1000), 1000, 2)
    parsl.dfk().cleanup()


if __name__ == "__main__":
    main()
