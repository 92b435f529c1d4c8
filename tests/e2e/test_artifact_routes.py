"""Artifacts over the wire: as announced, whole, as attachments; small changes as small uploads."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.artifacts import build_source_bundle
from gpulayer.artifacts.mending import difference
from gpulayer.errors import GPULayerError
from tests.support.local_home import LocalHome

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        home.run("true", check=0)
        yield home


def put(home: LocalHome, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    home.wire().request("PUT", f"/v1/artifacts/sha256/{digest}", data)
    return digest


def stored(home: LocalHome) -> list[str]:
    top = home.folder / "home" / "artifacts"
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())


def refusal(home: LocalHome, path: str, body: bytes) -> str:
    before = stored(home)
    with pytest.raises(GPULayerError) as refused:
        home.wire().request("PUT", path, body)
    assert stored(home) == before
    return refused.value.code


def test_a_browser_would_save_it_and_not_interpret_it(home: LocalHome) -> None:
    digest = put(home, b"<script>alert(1)</script>")
    reply = home.wire().request("GET", f"/v1/artifacts/sha256/{digest}")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-disposition"].startswith("attachment;")
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.data == b"<script>alert(1)</script>"


def test_a_collection_does_not_cut_a_download_short(home: LocalHome) -> None:
    data = os.urandom(1 << 20) * 24
    digest = put(home, data)
    path = home.folder / "home" / "artifacts" / digest[:2] / digest
    os.utime(path, (1000, 1000))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(120)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(home.places.plane_socket)
        request = (
            f"GET /v1/artifacts/sha256/{digest} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        sock.sendall(request.encode())
        answer = sock.recv(1000)  # it is on its way, and far from its end
        assert home.wire().call("POST", "/v1/gc", {})["artifacts"] >= 1
        assert not path.exists()
        while part := sock.recv(1 << 20):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert hashlib.sha256(body).hexdigest() == digest
    with pytest.raises(GPULayerError) as refused:
        home.wire().request("GET", f"/v1/artifacts/sha256/{digest}")
    assert refused.value.code == "artifact-not-found"


def test_which_are_missing_is_one_question(home: LocalHome) -> None:
    known, unknown = put(home, b"known"), "0" * 64
    asked = {"digests": [known, unknown, "../../db.sqlite"]}
    found = home.wire().call("POST", "/v1/artifacts/missing", asked)
    assert found == {"missing": [unknown, "../../db.sqlite"]}
    with pytest.raises(GPULayerError) as refused:
        home.wire().call("POST", "/v1/artifacts/missing", {"digests": ["0"] * 20_001})
    assert refused.value.code == "too-large"


def test_a_bundle_is_mended_with_what_has_changed(home: LocalHome, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").write_bytes(os.urandom(10_000))
    old = build_source_bundle(tmp_path)
    old_bytes = b"".join(old.chunks())
    base = put(home, old_bytes)
    (tmp_path / "7").write_text("changed")
    new = build_source_bundle(tmp_path)
    head, changed = difference(old.entries, new.entries)
    body = head + b"".join(b"".join(new.content(entry)) for entry in changed)
    assert len(body) < 200
    path = f"/v1/artifacts/sha256/{new.digest}/from"
    assert refusal(home, f"{path}/{'0' * 64}", body) == "artifact-not-found"
    assert refusal(home, f"{path}/{put(home, b'no zip')}", body) == "bad-bundle"
    assert refusal(home, f"{path}/{base}", body[:-1]) == "digest-mismatch"
    assert refusal(home, f"{path}/{base}", b"") == "usage"
    home.wire().request("PUT", f"{path}/{base}", body)
    reply = home.wire().request("GET", f"/v1/artifacts/sha256/{new.digest}")
    assert reply.data == b"".join(new.chunks())


@pytest.mark.parametrize(
    "path", ["", "/sha256/" + "0" * 64, "/sha256/" + "0" * 64 + "/from/" + "1" * 64]
)
def test_an_upload_that_is_cut_off_leaves_nothing(home: LocalHome, path: str) -> None:
    before = stored(home)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(home.places.plane_socket)
        head = f"PUT /v1/artifacts{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n"
        sock.sendall(head.encode() + b"x" * 5000)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass  # until it has noticed
    home.until(lambda: stored(home) == before)
