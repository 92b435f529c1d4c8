"""A port of a running job from here: many connections, whole bytes, half ends, the end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.inside import Afar, Here, Place
from tests.support.local_home import SECONDS, slay

pytestmark = pytest.mark.e2e

SERVER = """
import socket, sys, threading
def serve(sock):
    with sock:
        got = 0
        word = sock.recv(4)
        if word == b"slow":
            sock.recv(1)
            threading.Event().wait()
        if word == b"pour":
            try:
                while True: sock.sendall(b"x" * 65536)
            except OSError: return
        while data := sock.recv(65536):
            got += len(data)
            if word == b"echo": sock.sendall(data)
        sock.sendall(b"got %d" % got)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@pytest.fixture(scope="module", params=["here", "afar"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with Here() if request.param == "here" else Afar() as place:
        yield place


def serving(place: Place) -> tuple[str, int]:
    """A job that serves, and its port."""
    job = place.running(f"exec python3 -uc '{SERVER}'")
    found = b""
    while b"\n" not in found:
        found = place.line("logs", job).stdout
    return job, int(found.split()[0])


@contextmanager
def forwarded(place: Place, job: str, port: int) -> Iterator[tuple[int, Any]]:
    """The local port, and the process."""
    with place.begun(
        "forward", "--json", job, f"{port}:0", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as begun:
        try:
            text = ""
            while not text.endswith("}\n"):
                assert begun.stdout is not None
                text += begun.stdout.readline().decode()
            yield int(json.loads(text)["local"]), begun
        finally:
            begun.kill()


@pytest.fixture(scope="module")
def server(place: Place) -> tuple[str, int]:
    return serving(place)


@pytest.fixture(scope="module")
def local(place: Place, server: tuple[str, int]) -> Iterator[int]:
    with forwarded(place, *server) as (port, _):
        yield port


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), SECONDS)


def answered(sock: socket.socket) -> bytes:
    found = b""
    while data := sock.recv(1 << 20):
        found += data
    return found


def test_bytes_go_both_ways_and_half_an_end_is_half_an_end(local: int) -> None:
    with connected(local) as sock:
        sock.sendall(b"echo" + bytes(range(256)))
        sock.shutdown(socket.SHUT_WR)
        assert answered(sock) == bytes(range(256)) + b"got 256"


def test_much_goes_through_whole(local: int) -> None:
    with connected(local) as sock:
        sock.sendall(b"swal" + b"x" * 20_000_000)
        sock.shutdown(socket.SHUT_WR)
        assert answered(sock) == b"got 20000000"


def test_many_at_once_each_have_their_own_way(local: int) -> None:
    found: dict[int, bytes] = {}

    def go(number: int) -> None:
        with connected(local) as sock:
            sock.sendall(b"echo%d" % number)
            sock.shutdown(socket.SHUT_WR)
            found[number] = answered(sock)

    threads = [threading.Thread(target=go, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: b"%dgot %d" % (n, len(str(n))) for n in range(20)}


def test_one_that_pours_or_does_not_read_holds_up_nobody(place: Place, local: int) -> None:
    """Nor does it fill memory: nothing more is taken than a few buffers hold."""
    with connected(local) as pours, connected(local) as slow:
        pours.sendall(b"pour")
        assert pours.recv(1)
        slow.sendall(b"slow!")
        slow.settimeout(1.0)
        sent = 0
        try:
            while sent < 100_000_000:
                sent += slow.send(b"x" * 65536)
        except TimeoutError:
            pass
        assert sent < 50_000_000
        with connected(local) as sock:
            sock.sendall(b"echohello")
            sock.shutdown(socket.SHUT_WR)
            assert answered(sock) == b"hellogot 5"


def test_its_end_comes_with_the_jobs_and_the_record_tells_of_both(place: Place) -> None:
    job, port = serving(place)
    with forwarded(place, job, port) as (local, begun):
        with connected(local) as sock:
            sock.sendall(b"echohello")
            assert sock.recv(5) == b"hello"
            place.cancel(job)
            assert sock.recv(5) == b""
        assert begun.wait(SECONDS) == 0
        assert f"{job} has ended, and its forward with it" in begun.stderr.read().decode()
    assert [event["data"]["port"] for event in place.story(job, "forward")] == [port]
    assert len(place.story(job, "forward_ended")) == 1


def test_a_port_where_nobody_listens_ends_the_connection_and_says_why(
    place: Place, server: tuple[str, int]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with forwarded(place, server[0], port) as (local, begun):
        with connected(local) as sock:
            assert answered(sock) == b""
        while b"connection refused" not in (said := begun.stderr.readline()):
            assert said
        assert f"port {port} of the job" in said.decode()
        begun.send_signal(signal.SIGINT)
        assert begun.wait(SECONDS) == 130


def test_a_port_that_is_taken_here_is_named(place: Place, server: tuple[str, int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = place.line("forward", server[0], f"{server[1]}:{port}")
    assert done.returncode == 1
    assert b"error[port-in-use]" in done.stderr
    assert f"gpulayer forward {server[0]} {server[1]}:0".encode() in done.stderr


def test_what_is_no_port(place: Place) -> None:
    for text in ("0", "65536", "80:99999", "http", "80:"):
        assert b"is not PORT or PORT:LOCAL" in place.line("forward", "job", text).stderr


def test_a_killed_agent_ends_it_with_a_word() -> None:
    with Afar() as place:
        job, port = serving(place)
        with forwarded(place, job, port) as (local, begun):
            with connected(local) as sock:
                sock.sendall(b"echohello")
                assert sock.recv(5) == b"hello"
                slay(place.pid("agent"))
                assert sock.recv(5) == b""
            assert begun.wait(SECONDS) == 5
            assert json.loads(begun.stdout.read())["error"]["code"] == "worker-unreachable"
