"""Several hosts on one machine: network namespaces joined by a cable that can be cut.

    with network(2) as (a, b):
        a.gpulayer("serve", "--listen", a.address)
        b.cable.cut_for(60)

Each host has a home of its own (`LocalHome`), loopback and one address. All else is shared: files,
users, processes. Needs root and `ip` (iproute2); leaving the context removes all of it.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.support.local_home import SECONDS, LocalHome

GPULAYER = [sys.executable, "-m", "gpulayer"]
_numbers = itertools.count()


class Cable:
    """A host's only way out."""

    def __init__(self, name: str) -> None:
        self._name = name

    def cut(self) -> None:
        """What is sent from now on is lost, and nobody is told."""
        _ip("link", "set", self._name, "down")

    def mend(self) -> None:
        _ip("link", "set", self._name, "up")

    def cut_for(self, seconds: float) -> None:
        """The time is the fault itself here: leases run out in it."""
        self.cut()
        try:
            threading.Event().wait(seconds)
        finally:
            self.mend()


class Host:
    """One machine of the network."""

    def __init__(self, namespace: str, address: str, cable: Cable, home: LocalHome) -> None:
        self.namespace = namespace
        self.address = address
        self.cable = cable
        self.home = home

    def inside(self, *words: str) -> list[str]:
        """The words of a command, run on this host."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *words]

    def gpulayer(self, *words: str, check: int | None = 0, **how: Any) -> Any:
        """`gpulayer WORDS` to its end; a CompletedProcess with bytes."""
        done = subprocess.run(
            self.inside(*GPULAYER, *words),
            capture_output=True,
            timeout=how.pop("timeout", SECONDS),
            **self._world(how),
        )
        assert check is None or done.returncode == check, done
        return done

    def begin(self, *words: str, **how: Any) -> subprocess.Popen[bytes]:
        """`gpulayer WORDS`, begun; its streams are pipes."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.inside(*GPULAYER, *words), **self._world({**pipes, **how}))

    def _world(self, how: dict[str, Any]) -> dict[str, Any]:
        world: dict[str, Any] = {"cwd": self.home.work, "env": self.home.environ}
        return ({} if "input" in how else {"stdin": subprocess.DEVNULL}) | world | how


@contextmanager
def network(count: int, **environ: str) -> Iterator[Sequence[Host]]:
    """That many hosts, each on a cable to one switch."""
    number, mark = next(_numbers), os.getpid()
    switch = f"g{mark % 100_000}s{number}"
    with ExitStack() as undo:
        _ip("link", "add", switch, "type", "bridge")
        undo.callback(_ip, "link", "del", switch)
        _ip("link", "set", switch, "up")
        hosts = [
            undo.enter_context(_host(switch, f"10.123.{number % 250}.{place}", place, environ))
            for place in range(1, count + 1)
        ]
        yield hosts


@contextmanager
def _host(switch: str, address: str, place: int, environ: dict[str, str]) -> Iterator[Host]:
    namespace, cable = f"{switch}h{place}", f"{switch}c{place}"
    with ExitStack() as undo:
        _ip("netns", "add", namespace)
        undo.callback(_ip, "netns", "del", namespace)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("link", "set", cable, "master", switch, "up")
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", namespace, "link", "set", device, "up")
        home = undo.enter_context(LocalHome(**environ))
        yield Host(namespace, address, Cable(cable), home)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=SECONDS)
