"""Transfers whose connections end in the middle go on from there, and nobody else goes on with
them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.api import transfers
from gpulayer.api.wire import Wire
from gpulayer.errors import GPULayerError, RefusedError
from tests.support.cutting import Cutting
from tests.support.local_home import LocalHome
from tests.support.served import Served
from tests.support.travel import Person

pytestmark = pytest.mark.e2e

MB = 1 << 20
SLACK = MB // 2
"""What is on its way when a connection ends, and is lost."""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        home.run("true", check=0)
        yield home


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def begun(home: LocalHome) -> list[Path]:
    return sorted((home.folder / "home" / "artifacts" / ".new").glob("begun-*"))


def cut_off(home: LocalHome, digest: str, size: int, part: bytes) -> None:
    """An upload of `size` bytes that ends after its first part, and the plane has noticed."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(home.places.plane_socket)
        head = f"PUT /v1/artifacts/sha256/{digest} HTTP/1.1\r\nHost: x\r\n"
        sock.sendall(f"{head}Content-Length: {size}\r\n\r\n".encode() + part)
        home.until(lambda: [path.stat().st_size for path in begun(home)] == [len(part)])
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass


def test_64_mb_over_a_line_that_is_cut_every_4_mb(home: LocalHome, tmp_path: Path) -> None:
    data = os.urandom(MB) * 64
    digest = digest_of(data)
    with Cutting(home.places.plane_socket, every=4 * MB) as line:
        wire = Wire(str(line.address), tries=1)
        transfers.upload(wire, digest, io.BytesIO(data), len(data))
        assert line.cuts >= 15
        assert line.up <= len(data) + line.cuts * SLACK
        assert transfers.upload(wire, digest, io.BytesIO(data), len(data)) == 0, "it is there"
        before, down = line.cuts, line.down
        with (tmp_path / "copy").open("wb") as sink:
            transfers.download(wire, digest, sink)
        assert line.cuts - before >= 15
        assert line.down - down <= len(data) + (line.cuts - before) * SLACK
        wire.close()
    assert digest_of((tmp_path / "copy").read_bytes()) == digest
    assert begun(home) == []


def test_input_and_output_of_a_job_whose_lines_are_cut(served: Served) -> None:
    """Every connection of the person and of the worker ends after 3 MB, so what begins anew would
    never arrive."""
    size = 20 * MB
    with (
        Cutting(("127.0.0.1", served.endpoint.port), every=3 * MB) as line,
        Person() as worker,
        Person() as person,
    ):
        port = f":{line.address[1]}/"
        near = f":{served.endpoint.port}/"
        worker.gpulayer("join", served.link(served.invite()).replace(near, port), "--name", "lab")
        person.gpulayer("login", served.login.replace(near, port))
        data = os.urandom(MB) * (size // MB)
        (person.work / "input").write_bytes(data)
        try:
            script = "tail -c +2 $GPULAYER_INPUT_DIR/input > $GPULAYER_OUTPUT_DIR/output"
            words = ("run", "--input", "input", "--get=got", "--", "sh", "-c", script)
            person.gpulayer(*words)
        finally:
            worker.gpulayer("leave")
        assert (person.work / "got" / "output").read_bytes() == data[1:]
        assert line.cuts >= 4 * (size // (3 * MB))


def test_an_upload_goes_on_after_its_plane_was_killed(home: LocalHome) -> None:
    data = os.urandom(MB) * 8
    digest = digest_of(data)
    cut_off(home, digest, len(data), data[: 5 * MB])
    home.kill("plane")
    home.run("true", check=0)
    sent = transfers.upload(home.wire(), digest, io.BytesIO(data), len(data))
    assert sent == 3 * MB
    assert begun(home) == []


def test_an_upload_that_was_forged_in_the_middle_is_not_stored(home: LocalHome) -> None:
    data = os.urandom(MB) * 3
    digest = digest_of(data)
    cut_off(home, digest, len(data), b"\0" * MB * 2)
    with pytest.raises(RefusedError) as refused:
        transfers.upload(home.wire(), digest, io.BytesIO(data), len(data))
    assert refused.value.code == "digest-mismatch"
    assert begun(home) == []
    assert transfers.upload(home.wire(), digest, io.BytesIO(data), len(data)) == len(data)


def test_what_nobody_goes_on_with_is_swept(home: LocalHome) -> None:
    data = os.urandom(MB) * 3
    cut_off(home, digest_of(data), len(data), data[: 2 * MB])
    home.wire().call("POST", "/v1/gc", {})
    (path,) = begun(home)
    os.utime(path, (1000, 1000))
    home.wire().call("POST", "/v1/gc", {})
    assert begun(home) == []


def test_nobody_goes_on_with_anothers_upload_nor_hears_of_it(served: Served) -> None:
    data = os.urandom(MB) * 3
    digest = digest_of(data)
    mine, other = served.client("submitter"), served.client("submitter")
    asked = {"digests": [digest]}
    path = f"/v1/artifacts/sha256/{digest}"
    cut_off(served, digest, len(data), data[: 2 * MB])  # by the plane's own user
    assert served.wire().call("POST", transfers.MISSING, asked)["begun"] == {digest: 2 * MB}
    for stranger in (mine, other):
        assert stranger.call("POST", transfers.MISSING, asked) == {"missing": [digest]}
        with pytest.raises(RefusedError) as refused:
            stranger.request("PUT", f"{path}?offset={2 * MB}", b"x")
        assert refused.value.code == "not-allowed"
    with pytest.raises(GPULayerError):
        mine.request("PUT", f"{path}?offset={1 << 62}", b"")
    with pytest.raises(GPULayerError):
        mine.request("PUT", "/v1/artifacts/sha256/..%2f..%2fx?offset=0", b"x")
    served.wire().request("PUT", f"{path}?offset={2 * MB}", data[2 * MB :])
    assert other.request("GET", path).data == data


def test_two_connections_at_one_upload_do_not_mix(home: LocalHome) -> None:
    """The older one is dead, and its last bytes arrive after the newer one has begun."""
    data = os.urandom(MB) * 4
    digest = digest_of(data)
    with socket.socket(socket.AF_UNIX) as old:
        old.settimeout(60)
        old.connect(home.places.plane_socket)
        head = f"PUT /v1/artifacts/sha256/{digest} HTTP/1.1\r\nHost: x\r\n"
        old.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[: 2 * MB])
        home.until(lambda: [path.stat().st_size for path in begun(home)] == [2 * MB])
        with socket.socket(socket.AF_UNIX) as new:
            new.settimeout(60)
            new.connect(home.places.plane_socket)
            new.sendall(
                f"PUT /v1/artifacts/sha256/{digest}?offset={MB} HTTP/1.1\r\nHost: x\r\n"
                f"Content-Length: {3 * MB}\r\n\r\n".encode()
            )
            home.until(lambda: [path.stat().st_size for path in begun(home)] == [MB])
            # It is told to stop, perhaps before all of it is sent; then the answer may be lost.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                old.sendall(b"\0" * 2 * MB)
                assert old.recv(1 << 16).startswith(b"HTTP/1.1 400")
            new.sendall(data[MB:])
            assert new.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert home.wire().request("GET", f"/v1/artifacts/sha256/{digest}").data == data


@pytest.mark.parametrize(
    ("wish", "status", "first"),
    [
        ("bytes=7-", 206, 7), ("bytes=0-", 200, 0), ("bytes=9999-", 206, 9999),
        ("bytes=10000-", 416, None), ("bytes=99999999999999999-", 416, None),
        ("bytes=1-2,5-9", 200, 0), ("bytes=0-,0-,0-", 200, 0), ("bytes=5-1", 200, 0),
        ("bytes=-5", 200, 0), ("lines=3-", 200, 0), ("bytes=" + "9" * 400 + "-", 200, 0),
    ],
)  # fmt: skip
def test_a_part_is_one_part_or_the_whole(
    home: LocalHome, wish: str, status: int, first: int | None
) -> None:
    data = bytes(range(100)) * 100
    digest = digest_of(data)
    home.wire().request("PUT", f"/v1/artifacts/sha256/{digest}", data)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(home.places.plane_socket)
        head = f"GET /v1/artifacts/sha256/{digest} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        sock.sendall(f"{head}Range: {wish}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    said, _, body = answer.partition(b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 %d" % status)
    assert body == (b"" if first is None else data[first:])
    if status == 206:
        assert b"content-range: bytes %d-9999/10000" % (first or 0) in said.lower()
