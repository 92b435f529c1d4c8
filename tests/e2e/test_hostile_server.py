"""What a served plane answers to strangers: bytes, handshakes, headers and races of a real network.

After each test the same process serves on, has written no traceback, and runs a job.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.api import credentials
from gpulayer.api.wire import Wire
from gpulayer.contracts.principals import CredentialKind
from gpulayer.errors import GPULayerError
from tests.support.local_home import SECONDS
from tests.support.served import IDS, Served

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as served:
        yield served


@pytest.fixture(autouse=True)
def unharmed(served: Served) -> Iterator[None]:
    plane = served.pid("plane")
    yield
    assert served.pid("plane") == plane
    assert served.admin.call("GET", "/v1/version")["pid"] == plane
    assert "Traceback" not in served.last_words()


class Line:
    """A TLS connection, spoken in bytes."""

    def __init__(self, served: Served, **how: Any) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for name, value in how.items():
            setattr(context, name, value)
        raw = socket.create_connection((served.endpoint.name, served.endpoint.port), SECONDS)
        try:
            self.sock = context.wrap_socket(raw)
        except BaseException:
            raw.close()
            raise

    def say(self, *parts: bytes) -> bytes:
        """All that comes back until the connection ends or an answer is whole."""
        try:
            for part in parts:
                self.sock.sendall(part)
        except OSError:
            pass  # it was ended while we spoke; what it said is there to read
        return self.rest()

    def rest(self) -> bytes:
        data = b""
        while not _is_whole(data):
            try:
                piece = self.sock.recv(65536)
            except OSError:
                break
            if not piece:
                break
            data += piece
        return data

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()


def _is_whole(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    lengths = [x[15:] for x in head.lower().split(b"\r\n") if x[:15] == b"content-length:"]
    return bool(found) and bool(lengths) and len(body) >= int(lengths[0])


def status(answer: bytes) -> int:
    """0: the connection was ended without a word."""
    return int(answer.split()[1]) if answer else 0


def request(token: str, *lines: str, method: str = "GET", path: str = "/v1/jobs") -> bytes:
    said = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines]
    if token:
        said.append(f"Authorization: Bearer {token}")
    return ("\r\n".join(said) + "\r\n\r\n").encode("latin-1")


# --- handshakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n",
        os.urandom(4096),
        b"\x16\x03\x01\xff\xff" + b"\0" * 600,
        b"SSH-2.0-x\r\n",
        b"",
    ],
    ids=["plain http", "noise", "a broken hello", "ssh", "nothing"],
)
def test_what_is_no_handshake_ends_the_connection(served: Served, first: bytes) -> None:
    with socket.create_connection((served.endpoint.name, served.endpoint.port), SECONDS) as sock:
        sock.sendall(first)
        sock.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while piece := sock.recv(4096):
                said += piece
        except ConnectionResetError:
            pass
    assert b"HTTP" not in said


def test_tls_before_1_2_is_refused(served: Served) -> None:
    with (
        pytest.warns(DeprecationWarning, match="deprecated"),
        pytest.raises((ssl.SSLError, OSError)),
    ):
        Line(
            served,
            minimum_version=ssl.TLSVersion.TLSv1,
            maximum_version=ssl.TLSVersion.TLSv1_1,
        )


# --- heads --------------------------------------------------------------------------------------


def test_a_head_has_a_limit(served: Served) -> None:
    token = served.token("viewer")
    with Line(served) as line:
        assert status(line.say(request(token, "X-A: " + "a" * 15_000))) == 200
    with Line(served) as line:
        assert status(line.say(request(token, "X-A: " + "a" * 16_384))) == 431
    with Line(served) as line:  # and it is counted over many pieces
        pieces = [request(token)[:-2], *(b"X-%d: %s\r\n" % (n, b"a" * 900) for n in range(40))]
        assert status(line.say(*pieces)) == 431


def test_a_megabyte_of_token_is_not_looked_at(served: Served) -> None:
    with Line(served) as line:
        assert status(line.say(request("A" * (1 << 20)))) in (0, 431)


def test_two_credentials_are_one_too_many(served: Served) -> None:
    token = served.token("viewer")
    with Line(served) as line:
        answer = line.say(request(token, f"Authorization: Bearer {token}"))
    assert status(answer) == 400


def test_a_token_counts_in_its_header_alone(served: Served) -> None:
    token = served.token("viewer")
    for path in (f"/v1/jobs?token={token}", f"/v1/jobs?access_token={token}"):
        with Line(served) as line:
            assert status(line.say(request("", path=path))) == 401
    with Line(served) as line:
        assert status(line.say(request("", f"Cookie: token={token}"))) == 401


@pytest.mark.parametrize(
    "header",
    ["Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_pages_of_other_sites_get_nothing(served: Served, header: str, method: str) -> None:
    token = served.token("admin")
    with Line(served) as line:
        answer = line.say(request(token, header, "Content-Length: 0", method=method))
    assert status(answer) in (403, 404, 405)
    assert b"access-control-allow" not in answer.lower()


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8765", "evil.example@127.0.0.1", "", "a b"]
)
def test_a_strangers_name_for_us_is_refused_before_a_body_is_read(
    served: Served, host: str
) -> None:
    """DNS rebinding: a page gives its own name our address."""
    token = served.token("admin")
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Length: 1000000\r\n\r\n"
    )
    with Line(served) as line:
        answer = line.say(head.encode())
    assert status(answer) == 400
    if host:
        assert b"does not answer to the name" in answer


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]:8765", "10.0.0.5", "localhost:1", "HOST"])
def test_addresses_and_the_machines_own_name_are_ours(served: Served, host: str) -> None:
    token, name = served.token("viewer"), host.replace("HOST", os.uname().nodename)
    head = f"GET /v1/jobs HTTP/1.1\r\nHost: {name}\r\nAuthorization: Bearer {token}\r\n\r\n"
    with Line(served) as line:
        assert status(line.say(head.encode())) == 200


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: -5",),
        ("Content-Length: +5",),
        ("Content-Length: 5_0",),
        ("Transfer-Encoding: chunked, gzip",),
    ],
)
def test_a_body_of_two_lengths_is_no_second_request(served: Served, lines: tuple[str, ...]) -> None:
    smuggled = request(served.token("viewer"))
    with Line(served) as line:
        answer = line.say(request("", *lines, method="POST") + b"0\r\n\r\n" + smuggled)
        answer += line.rest() if status(answer) else b""
    assert status(answer) in (0, 400, 401, 411)
    assert answer.count(b"HTTP/1.1 ") <= 1


def test_a_body_that_is_not_read_is_no_second_request(served: Served) -> None:
    inner = request(served.token("viewer"))
    head = request("", f"Content-Length: {len(inner)}", method="POST")
    with Line(served) as line:
        answer = line.say(head + inner)
        assert line.sock.recv(10) == b""
    assert status(answer) == 401
    assert answer.count(b"HTTP/1.1 ") == 1


def test_another_wire_is_refused_before_its_body(served: Served) -> None:
    for wire, told in (("2", b"upgrade the plane"), ("0", b"upgrade the client"), ("x", b"")):
        head = request(
            served.token("submitter"),
            f"X-Gpulayer-Wire: {wire}",
            "X-Gpulayer-Version: 9.9.9",
            "Content-Length: 1000000",
            method="POST",
        )
        with Line(served) as line:
            answer = line.say(head)
        assert status(answer) == 426
        assert b"version-mismatch" in answer
        assert told in answer


def test_a_field_that_only_a_newer_client_knows_is_named_so(served: Served) -> None:
    spec = {"name": "x", "workload": {"kind": "command", "command": ["true"]}, "brand_new": 1}
    body = json.dumps({"spec": spec}).encode()
    token = served.token("submitter")
    for version, slug in (("9.9.9", b"version-mismatch"), ("0.0.1", b"unknown-field")):
        lines = (f"X-Gpulayer-Version: {version}", f"Content-Length: {len(body)}")
        with Line(served) as line:
            assert slug in line.say(request(token, *lines, method="POST") + body)


# --- bodies -------------------------------------------------------------------------------------


def test_a_body_has_the_limit_of_its_route(served: Served) -> None:
    client = served.client("submitter")
    big = {"spec": {"name": "x" * (1 << 20)}}
    with pytest.raises(GPULayerError) as caught:
        client.call("POST", "/v1/jobs", big)
    assert caught.value.code == "too-large"
    with pytest.raises(GPULayerError) as caught:
        client.call("POST", "/v1/jobs/batch", {"jobs": [big]})
    assert caught.value.code != "too-large"


def test_who_may_not_store_sends_nothing(served: Served) -> None:
    """The refusal comes before the body: an upload of any size costs the plane nothing."""
    digest = "0" * 64
    head = request(
        served.token("viewer"),
        "Content-Length: 1000000000000",
        method="PUT",
        path=f"/v1/artifacts/sha256/{digest}",
    )
    with Line(served) as line:
        assert status(line.say(head)) == 403


@pytest.mark.parametrize("path", ["/v1/worker/acquire", "/v1/worker/report", "/v1/jobs/batch"])
def test_of_who_is_not_known_no_body_is_read(served: Served, path: str) -> None:
    head = request("", "Content-Length: 1000000000000", method="POST", path=path)
    with Line(served) as line:
        assert status(line.say(head)) == 401


def test_a_packed_body_is_not_unpacked(served: Served) -> None:
    import gzip

    body = gzip.compress(b'{"spec": {}}')
    lines = ("Content-Encoding: gzip", f"Content-Length: {len(body)}")
    with Line(served) as line:
        answer = line.say(request(served.token("submitter"), *lines, method="POST") + body)
    assert status(answer) == 400
    assert b"without an encoding" in answer


# --- races --------------------------------------------------------------------------------------


def test_a_code_raced_by_fifty_lets_in_as_many_as_it_has_uses(served: Served) -> None:
    code, won, lost = served.invite(uses=3), [], []
    start = threading.Barrier(50)

    def join(number: int) -> None:
        secret = credentials.make(CredentialKind.WORKER, IDS).reveal()
        body = {"code": code, "token": secret, "name": f"racer-{number}"}
        wire = Wire(served.endpoint, tries=3)
        start.wait(SECONDS)
        try:
            won.append(wire.call("POST", "/v1/enrol", body)["worker"])
        except GPULayerError as error:
            lost.append(error.code)
        finally:
            wire.close()

    threads = [threading.Thread(target=join, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert len(won) == 3
    assert lost == ["unauthorized"] * 47
    events = served.admin.call("GET", "/v1/audit")["events"]
    assert [e["kind"] for e in events if e["credential"] == code[:4]].count("refused") == 47


# --- the machine --------------------------------------------------------------------------------


def test_the_secrets_of_the_process_are_its_own(served: Served) -> None:
    key = served.folder / "home" / "serve.key"
    assert key.stat().st_mode & 0o777 == 0o600
    pid = served.pid("plane")
    with open(f"/proc/{pid}/limits") as file:
        (core,) = (line for line in file if line.startswith("Max core"))
    assert core.split()[4] == "0"
    owner = os.stat(f"/proc/{pid}/mem").st_uid
    assert owner == 0  # not dumpable: even its own user may not attach (proc(5))


@pytest.mark.parametrize("argv", [("--plain", "--listen=0.0.0.0:0"), ("--tls-cert=/nowhere",)])
def test_a_server_that_would_be_open_does_not_start(served: Served, argv: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpulayer", "serve", *argv],
        env={**served.environ, "GPULAYER_HOME": str(served.folder / "other")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in (2, 4), done.stderr
    assert "error[not-encrypted]" in done.stderr or "error[usage]" in done.stderr


def test_a_key_that_others_can_read_is_not_used(served: Served) -> None:
    home = served.folder / "loose"
    home.mkdir(mode=0o700)
    for name in ("serve.key", "serve.crt"):
        (home / name).write_bytes((served.folder / "home" / name).read_bytes())
        (home / name).chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-m", "gpulayer", "serve", "--listen=127.0.0.1:0"],
        env={**served.environ, "GPULAYER_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert "chmod 600" in done.stderr
