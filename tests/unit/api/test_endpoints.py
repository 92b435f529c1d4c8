"""Servers far away: who is spoken to, who is not, and that nobody else hears a word."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from gpulayer._version import WIRE
from gpulayer.api.endpoints import Far, parse
from gpulayer.api.wire import Wire
from gpulayer.clock import SystemClock
from gpulayer.errors import GPULayerError
from tests.support.tls_server import Identity, LoopbackServer

PIN = "ab" * 32
TOKEN = "gplc_who_knows"


def answer(body: object, status: int = 200, more: str = "") -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nX-Gpulayer-Wire: {WIRE}\r\n{more}Content-Length: {len(data)}"
    return f"{head}\r\n\r\n".encode() + data


def ask(port: int, pin: str | None, tries: int = 1) -> object:
    wire = Wire(Far("127.0.0.1", port, pin), token=lambda: TOKEN, tries=tries)
    try:
        return wire.call("GET", "/v1/version")
    finally:
        wire.close()


def refused(port: int, pin: str | None, tries: int = 1) -> GPULayerError:
    with pytest.raises(GPULayerError) as raised:
        ask(port, pin, tries)
    return raised.value


@pytest.fixture(scope="module")
def identity() -> Identity:
    return Identity()


@pytest.fixture(scope="module")
def another() -> Identity:
    return Identity()


def test_a_pinned_server_gets_the_token_and_answers(identity: Identity) -> None:
    with LoopbackServer(answer({"ok": 1}), context=identity.context()) as server:
        assert ask(server.port, identity.pin) == {"ok": 1}
    assert f"Authorization: Bearer {TOKEN}\r\n".encode() in server.received[0]
    assert f"Host: 127.0.0.1:{server.port}\r\n".encode() in server.received[0]


def test_a_certificate_that_has_expired_is_still_the_pinned_one() -> None:
    expired = Identity(days=-30)
    with LoopbackServer(answer({"ok": 1}), context=expired.context()) as server:
        assert ask(server.port, expired.pin) == {"ok": 1}


def test_another_certificate_gets_nothing(identity: Identity, another: Identity) -> None:
    with LoopbackServer(answer({"ok": 1}), context=another.context()) as server:
        error = refused(server.port, identity.pin, tries=3)
    assert error.code == "tls-untrusted"
    assert identity.pin in error.where
    assert another.pin in error.where
    assert b"".join(server.received) == b""
    assert len(server.received) + len(server.failed) == 1  # and is not asked again


def test_a_reconnect_to_another_certificate_gets_nothing(
    identity: Identity, another: Identity
) -> None:
    """A server that is replaced between two calls: the pin holds for each connection."""
    with LoopbackServer(answer({"ok": 1}), context=identity.context()) as first:
        port = first.port
        wire = Wire(Far("127.0.0.1", port, identity.pin), token=lambda: TOKEN, tries=2)
        wire.call("GET", "/v1/version")
        wire.close()
    with LoopbackServer(context=another.context()) as second:
        wire.endpoint = Far("127.0.0.1", second.port, identity.pin)
        with pytest.raises(GPULayerError) as raised:
            wire.call("GET", "/v1/version")
    assert raised.value.code == "tls-untrusted"
    assert b"".join(second.received) == b""


def test_old_tls_is_refused(identity: Identity) -> None:
    context = identity.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with LoopbackServer(answer({"ok": 1}), context=context) as server:
        error = refused(server.port, identity.pin)
    assert error.code == "tls-untrusted"
    assert "1.2" in error.why
    assert server.received == []


def test_what_speaks_no_tls_hears_no_token() -> None:
    heard = bytearray()
    listener = socket.create_server(("127.0.0.1", 0))

    def speak() -> None:
        with listener, listener.accept()[0] as sock:
            sock.sendall(b"220 mail.example ESMTP\r\n" * 10)
            with suppress(ConnectionError):
                while piece := sock.recv(65536):
                    heard.extend(piece)

    thread = threading.Thread(target=speak)
    thread.start()
    error = refused(listener.getsockname()[1], PIN)
    thread.join()
    assert error.code == "not-a-server"
    assert TOKEN.encode() not in heard
    assert b"/v1/" not in heard


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(identity: Identity, status: int) -> None:
    with LoopbackServer(context=identity.context()) as elsewhere:
        to = f"Location: https://127.0.0.1:{elsewhere.port}/v1/version\r\n"
        with LoopbackServer(answer({}, status, to), context=identity.context()) as server:
            error = refused(server.port, identity.pin, tries=3)
    assert error.code == "not-a-server"
    assert str(elsewhere.port) in error.why
    assert elsewhere.received == []
    assert elsewhere.failed == []


def test_garbage_behind_the_right_certificate_is_no_answer(identity: Identity) -> None:
    with LoopbackServer(b"\x00\x01garbage\r\n", context=identity.context()) as server:
        error = refused(server.port, identity.pin)
    assert error.code == "server-unreachable"
    assert "HTTP" in error.why


def test_another_program_on_loopback_is_no_server() -> None:
    data = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnginx"
    with LoopbackServer(data) as server:
        error = refused(server.port, None)
    assert error.code == "not-a-server"


def test_nobody_there_names_address_and_cause() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    error = refused(port, PIN)
    assert error.code == "server-unreachable"
    assert error.where == f"https://127.0.0.1:{port}"
    assert "refused" in error.why


def test_a_lost_answer_is_asked_for_again_on_a_new_connection(identity: Identity) -> None:
    cut = b"HTTP/1.1 200 OK\r\n"
    with LoopbackServer(cut, answer({"ok": 1}), context=identity.context()) as server:
        assert ask(server.port, identity.pin, tries=2) == {"ok": 1}
    assert len(server.received) == 2


def test_a_parked_call_can_be_interrupted_over_tls(identity: Identity) -> None:
    with LoopbackServer(context=identity.context()) as server:
        wire = Wire(Far("127.0.0.1", server.port, identity.pin), tries=1)
        caught: list[BaseException] = []

        def park() -> None:
            try:
                wire.call("GET", "/v1/version", park=60.0)
            except GPULayerError as error:
                caught.append(error)

        thread = threading.Thread(target=park)
        thread.start()
        while not server.received or not server.received[0]:
            threading.Event().wait(0.005)
        wire.abandon()
        thread.join(30)
        assert not thread.is_alive()
        wire.close()
    assert len(caught) == 1


def test_the_handshake_is_paid_once_and_nothing_waits_for_a_delayed_packet(
    identity: Identity,
) -> None:
    """Each that waits takes 40 ms and more; a busy machine is as slow with many, not with all."""
    count = 300
    answers = [answer({"ok": 1})] * count
    with LoopbackServer(*answers, context=identity.context()) as server:
        wire = Wire(Far("127.0.0.1", server.port, identity.pin), tries=1)
        clock = SystemClock()
        times = []
        for _ in range(count):
            begun = clock.monotonic()
            wire.call("GET", "/v1/version")
            times.append(clock.monotonic() - begun)
        wire.close()
    assert len(server.received) == 1
    assert sorted(times)[10] < 0.03


@pytest.mark.parametrize(
    ("text", "endpoint", "code"),
    [
        (f"gl://10.0.0.5:8765/K7QF2M9D-sha256.{PIN}", Far("10.0.0.5", 8765, PIN), "K7QF2M9D"),
        (f"gl://lab-1.example:80/gplj_a-b-sha256.{PIN}", Far("lab-1.example", 80, PIN), "gplj_a-b"),
        (f"gl://[fd00::5]:8765/sha256.{PIN.upper()}", Far("fd00::5", 8765, PIN), None),
        (f"https://h:1/sha256.{PIN}", Far("h", 1, PIN), None),
        ("http://127.0.0.1:8765", Far("127.0.0.1", 8765), None),
        ("http://[::1]:8765/", Far("::1", 8765), None),
        ("http://localhost:8765", Far("localhost", 8765), None),
        ("http://127.0.0.1:8765/c0de", Far("127.0.0.1", 8765), "c0de"),
    ],
)
def test_addresses(text: str, endpoint: Far, code: str | None) -> None:
    found = parse(text)
    assert (found.endpoint, found.code) == (endpoint, code)
    assert parse(endpoint.url).endpoint == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.5:8765",
        "gl://10.0.0.5:8765",
        f"gl://10.0.0.5/sha256.{PIN}",
        f"gl://10.0.0.5:0/sha256.{PIN}",
        f"gl://10.0.0.5:70000/sha256.{PIN}",
        f"gl://10.0.0.5:8765/CODE-sha256.{PIN[:6]}",
        f"gl://10.0.0.5:8765/CODE-sha256.{PIN}0",
        f"gl://me@10.0.0.5:8765/sha256.{PIN}",
        "https://10.0.0.5:8765",
        "http://127.0.0.1:8765/sha256." + PIN,
        f"ftp://10.0.0.5:8765/sha256.{PIN}",
        f"gl://10.0.0.5:8765/CO\nDE-sha256.{PIN}",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(GPULayerError) as raised:
        parse(text)
    assert raised.value.code == "usage"


@pytest.mark.parametrize(
    "text", ["http://10.0.0.5:8765", "http://lab.example:80", "http://127.0.0.1.example:80",
             "http://[2001:db8::1]:80", "http://[::ffff:10.0.0.1]:80", "http://0.0.0.0:80"]
)  # fmt: skip
def test_plain_http_to_another_machine_is_refused_before_it_is_reached(text: str) -> None:
    with pytest.raises(GPULayerError) as raised:
        parse(text)
    assert raised.value.code == "not-encrypted"


def test_a_name_that_turns_out_to_be_no_loopback_hears_nothing() -> None:
    """`localhost` may be another machine by /etc/hosts: what counts is who answered."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address beside loopback")
        own = probe.getsockname()[0]
    with socket.create_server((own, 0)) as listener:
        error = None
        try:
            Far(own, listener.getsockname()[1]).connect(10.0)
        except GPULayerError as refusal:
            error = refusal
    assert error is not None
    assert error.code == "not-encrypted"


def test_a_server_of_another_wire_is_named_before_its_body_is_read(identity: Identity) -> None:
    newer = answer({"anything": []}).replace(b"Wire: %d" % WIRE, b"Wire: %d" % (WIRE + 1))
    with LoopbackServer(newer, context=identity.context()) as server:
        error = refused(server.port, identity.pin, tries=3)
    assert error.code == "version-mismatch"
    assert error.where == f"https://127.0.0.1:{server.port}"
    assert f"wire {WIRE + 1}" in error.why
    assert error.help == ("gpulayer version",)


def test_no_proxy_is_asked(identity: Identity) -> None:
    """Whatever the variables say that other programs obey."""
    ask_it = (
        "import sys; from gpulayer.api.endpoints import Far; from gpulayer.api.wire import Wire\n"
        "for pin, port in ((sys.argv[1], sys.argv[2]), (None, sys.argv[3])):\n"
        "    wire = Wire(Far('127.0.0.1', int(port), pin), token=lambda: 'x', tries=1)\n"
        "    print(wire.call('GET', '/v1/version')); wire.close()\n"
    )
    with (
        LoopbackServer() as proxy,
        LoopbackServer(answer({"ok": 1}), context=identity.context()) as far,
        LoopbackServer(answer({"ok": 2})) as near,
    ):
        names = ("http_proxy", "https_proxy", "all_proxy")
        url = f"http://127.0.0.1:{proxy.port}"
        proxies = {name: url for word in names for name in (word, word.upper())}
        done = subprocess.run(
            [sys.executable, "-c", ask_it, identity.pin, str(far.port), str(near.port)],
            env={**os.environ, **proxies, "NO_PROXY": "", "no_proxy": ""},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.stdout == "{'ok': 1}\n{'ok': 2}\n", done.stderr
    assert proxy.received == []
