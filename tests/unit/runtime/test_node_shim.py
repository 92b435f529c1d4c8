"""How the nodes of a distributed job meet before their launchers start, by real sockets."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.runtime import distributed, node_shim, rank_shim, reach

SHIM = node_shim.__file__
Gang = Callable[..., "Nodes"]
SECONDS = 60.0


class Nodes:
    """Nodes whose launcher says its own number, in folders of one test."""

    def __init__(self, folder: Path, count: int, *, patience: float = 30) -> None:
        self.folder = folder
        self.count = count
        self.patience = patience
        self.held = kept_port()
        self.port = self.held.getsockname()[1]
        self.address = distributed.LOOPBACK
        self.probe = False
        self.begun: list[subprocess.Popen[str]] = []

    def start(self, node: int, *, token: str = "t", says: str = "") -> subprocess.Popen[str]:
        folder = self.folder / str(node)
        folder.mkdir()
        plan = {
            "launcher": [sys.executable, "-c", says or f"print('node {node} at', {{port}})"],
            "nodes": self.count,
            "node": node,
            "address": self.address,
            "port": self.port,
            "token": token,
            "probe": self.probe,
            "names": [f"lab-{n}" for n in range(self.count)],
            "join_seconds": self.patience,
            "scrub": distributed.scrub(),
            "defaults": {},
        }
        (folder / "node.json").write_text(json.dumps(plan))
        begun = subprocess.Popen(
            [sys.executable, "-I", "-S", SHIM, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.begun.append(begun)
        return begun

    def end(self) -> None:
        self.held.close()
        for node in self.begun:
            with node:
                node.kill()

    def why(self, node: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / str(node) / "node.end").read_text())
        return found


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Callable[..., Nodes]]:
    with contextlib.ExitStack() as stack:

        def make(count: int, **how: Any) -> Nodes:
            nodes = Nodes(tmp_path, count, **how)
            stack.callback(nodes.end)
            return nodes

        yield make


def kept_port() -> socket.socket:
    """Bound, so that nobody who asks for any port is given it, and a node can listen on it."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((distributed.LOOPBACK, 0))
    return kept


def test_all_nodes_begin_once_all_are_there_in_any_order(gang: Gang) -> None:
    nodes = gang(3)
    early = [nodes.start(2), nodes.start(1)]
    assert not select.select([node.stdout for node in early], [], [], 0.3)[0]
    said = [node.communicate(timeout=SECONDS) for node in [nodes.start(0), *early]]
    assert sorted(out for out, _ in said) == [f"node {n} at {nodes.port}\n" for n in range(3)]


def test_they_meet_over_ipv6_too(gang: Gang) -> None:
    nodes = gang(2)
    nodes.address = "::1"
    both = [nodes.start(0), nodes.start(1)]
    assert [node.wait(SECONDS) for node in both] == [0, 0]


@pytest.mark.parametrize("address", [distributed.LOOPBACK, "::1"])
def test_nodes_that_reach_each_other_begin(gang: Gang, address: str) -> None:
    nodes = gang(3)
    nodes.address, nodes.probe = address, True
    begun = [nodes.start(n) for n in range(3)]
    assert [node.wait(SECONDS) for node in begun] == [0, 0, 0]


def test_a_pair_that_cannot_reach_each_other_is_named(gang: Gang) -> None:
    """The one in between is of this test: where it says that it listens, nobody does."""
    nodes = gang(3)
    nodes.probe = True
    with kept_port() as kept:
        port = kept.getsockname()[1]
        begun = [nodes.start(0), nodes.start(2)]
        with knock(nodes.port) as one:
            one.sendall(b"t 1 %d\n" % port)
            said = one.makefile()
            doors = json.loads(said.readline().partition(" ")[2])
            assert sorted(doors) == ["1", "2"]
            one.sendall(b'{"2": "no answer within 5 s"}\n')
            last = said.readline()
        assert [node.wait(SECONDS) for node in begun] == [125, 125]
    refused = f"cannot reach lab-1 (node 1) at 127.0.0.1:{port}: connection refused"
    at = f"127.0.0.1:{doors['2'][1]}"
    assert nodes.why(0)["message"].split("; ") == [
        f"lab-0 (node 0) {refused}",
        f"lab-1 (node 1) cannot reach lab-2 (node 2) at {at}: no answer within 5 s",
        f"lab-2 (node 2) {refused}",
    ]
    assert last.strip() == "no " + nodes.why(0)["message"]
    assert nodes.why(2) == nodes.why(0) | {"slug": "not-joined"}


def test_a_node_that_is_older_than_doors_is_let_in(gang: Gang) -> None:
    nodes = gang(3)
    nodes.probe = True
    begun = [nodes.start(0), nodes.start(2)]
    with knock(nodes.port) as old:
        old.sendall(b"t 1\n")
        assert old.makefile().readline() == "go\n"
    assert [node.wait(SECONDS) for node in begun] == [0, 0]


def test_a_door_that_never_answers_is_given_up_in_time() -> None:
    with socket.socket() as deaf:  # its queue is full
        deaf.bind((distributed.LOOPBACK, 0))
        deaf.listen(0)
        at = deaf.getsockname()
        with socket.create_connection(at):
            found = reach.closed({4: at}, 0.2)
    assert found == {4: "no answer within 0.2 s"}


def test_who_does_not_come_is_named(gang: Gang) -> None:
    nodes = gang(4, patience=4)
    begun = [nodes.start(0), nodes.start(2)]
    assert [node.wait(SECONDS) for node in begun] == [125, 125]
    message = "lab-1 (node 1), lab-3 (node 3) did not join within 4 s"
    assert nodes.why(0) == {"slug": "not-joined", "message": message}
    assert nodes.why(2) == nodes.why(0)


def test_a_signal_ends_the_waiting_of_either_side(gang: Gang) -> None:
    nodes = gang(2)
    with socket.create_server((distributed.LOOPBACK, nodes.port)) as first:
        other = nodes.start(1)
        with first.accept()[0] as there:
            assert there.recv(100) == b"t 1\n"
            other.terminate()
            assert other.wait(SECONDS) == 143
    first_node = nodes.start(0)
    knock(nodes.port).close()
    first_node.terminate()
    assert first_node.wait(SECONDS) == 143


def test_a_first_node_that_cannot_be_reached_is_named_with_its_address(gang: Gang) -> None:
    nodes = gang(2, patience=0.5)
    assert nodes.start(1).wait(SECONDS) == 125
    assert nodes.why(1)["message"] == (
        f"lab-1 (node 1) could not join lab-0 (node 0) at 127.0.0.1 port {nodes.port} within "
        "0.5 s: connection refused"
    )


def test_strangers_and_another_attempts_nodes_do_not_count(gang: Gang) -> None:
    nodes = gang(2, patience=30)
    first = nodes.start(0)
    for text in (b"x 1\n", b"t 7\n", b"t 0\n", b"t \xff\n", b"GET / HTTP/1.1\r\n\r\n", b"a" * 4000):
        with knock(nodes.port) as stranger:
            stranger.sendall(text)
            with contextlib.suppress(ConnectionResetError):  # it read less than was sent
                assert stranger.recv(10) == b""
    assert first.poll() is None
    assert nodes.start(1).wait(SECONDS) == 0
    assert first.wait(SECONDS) == 0


def test_a_node_that_left_before_its_time_is_missing_again(gang: Gang) -> None:
    nodes = gang(3, patience=4)
    first = nodes.start(0)
    with knock(nodes.port) as gone:
        gone.sendall(b"t 1\n")
    assert nodes.start(2).wait(SECONDS) == 125
    assert first.wait(SECONDS) == 125
    assert nodes.why(0)["message"].startswith("lab-1 (node 1) did not join")


def test_the_port_is_nobodys_else_between_the_meeting_and_the_launcher(
    gang: Gang, tmp_path: Path
) -> None:
    """It stays bound, so that who asks for any port gets another one, and the launcher can still
    listen there."""
    listens = (
        "import socket; s = socket.socket();"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1);"
        "s.bind(('', {port})); s.listen(); p = socket.socket();"
    )
    tries = (
        "import socket; p = socket.socket()\ntry:\n p.bind(('127.0.0.1', {port}))\n"
        "except OSError as e:\n print(e.errno)\n"
    )
    nodes = gang(1)
    nodes.held.close()
    assert nodes.start(0, says=listens + "print('listens')").communicate(timeout=SECONDS)[0]
    (tmp_path / "0").rename(tmp_path / "old")
    assert nodes.start(0, says=tries).communicate(timeout=SECONDS)[0] == "98\n"


def test_a_node_alone_takes_another_port_when_it_loses_one(gang: Gang, tmp_path: Path) -> None:
    """The launcher of this test loses its port to a listener that it starts itself, once."""
    loses = (
        "import os, pathlib, socket, subprocess, sys\n"
        "mark = pathlib.Path(sys.argv[-1], 'lost')\n"
        "if not mark.exists():\n"
        "    mark.touch(); s = socket.socket()\n"
        "    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "    s.bind(('127.0.0.1', {port})); s.listen(); s.set_inheritable(True)\n"
        "    if child := os.fork(): mark.write_text(str(child)); os._exit(1)\n"
        "    os.dup2(os.open(os.devnull, os.O_RDWR), 1); os.dup2(1, 2)\n"
        "    s.accept(); s.accept(); os._exit(0)\n"
        "print('second try')\n"
    )
    nodes = gang(1)
    nodes.port = 0
    node = nodes.start(0, says=loses.replace("sys.argv[-1]", repr(str(tmp_path))))
    out, err = node.communicate(timeout=SECONDS)
    assert (node.returncode, out) == (0, "second try\n")
    assert "was taken by another process" in err
    with contextlib.suppress(ProcessLookupError):  # it may have been asked twice already
        os.kill(int((tmp_path / "lost").read_text()), signal.SIGKILL)


def test_the_first_failure_is_by_time_and_a_killed_shim_comes_before(tmp_path: Path) -> None:
    def end(rank: int, **said: Any) -> None:
        rank_shim.write(str(tmp_path / f"{rank}.end"), {"began": 1.0, **said})

    assert rank_shim.first_failure(rank_shim.ends(str(tmp_path))) is None
    end(0, at=5.0, code=143, signal=15)
    end(1, at=4.0, code=3, signal=None)
    end(2, at=3.0, code=0, signal=None)
    assert rank_shim.first_failure(rank_shim.ends(str(tmp_path))) == 1
    end(3)
    ends = rank_shim.ends(str(tmp_path))
    assert rank_shim.first_failure(ends) == 3
    assert ends[3]["code"] == 137


@pytest.mark.parametrize(
    ("procs", "cores", "threads"), [(1, 1.0, "1"), (2, 8.0, "4"), (4, 2.0, "1"), (3, 0.5, "1")]
)
def test_ranks_share_the_cores_of_their_node(procs: int, cores: float, threads: str) -> None:
    assert distributed.defaults(procs, cores, "lo")["OMP_NUM_THREADS"] == threads


def test_ranks_are_numbered_node_by_node() -> None:
    assert [list(distributed.ranks_of(node, 3)) for node in range(2)] == [[0, 1, 2], [3, 4, 5]]


def test_an_ipv6_address_goes_in_brackets() -> None:
    words = distributed.torchrun(
        "py", nodes=2, node=1, procs=1, job="j", patience=300.4, address="fd00::1"
    )
    assert "--master_addr=[fd00::1]" in words
    assert "--master_port={port}" in words
    assert "--rdzv_conf=timeout=300" in words


def knock(port: int) -> socket.socket:
    """A connection to the first node, as soon as it listens."""
    while True:
        try:
            return socket.create_connection((distributed.LOOPBACK, port), SECONDS)
        except ConnectionRefusedError:
            select.select([], [], [], 0.05)
