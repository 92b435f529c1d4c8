"""From a tag to a digest: by its registry, by an engine here, or a refusal that says what to do."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gpulayer.errors import RefusedError
from gpulayer.sdk.images import with_digests

DIGEST = f"sha256:{'ab' * 32}"


class Registry(ThreadingHTTPServer):
    """Wants a token, which it gives to whoever has the login."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.asked: list[str] = []
        self.login = ""
        """Empty: a token is given to everybody."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_HEAD(self) -> None:
        self.server.asked.append(self.path)
        if self.headers.get("Authorization") != "Bearer a-token":
            realm = f'Bearer realm="http://{self.server.address}/token",service="s",scope="pull"'
            self.send_response(401)
            self.send_header("WWW-Authenticate", realm)
        elif self.path == "/v2/team/mine/manifests/1":
            self.send_response(200)
            self.send_header("Docker-Content-Digest", DIGEST)
        else:
            self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        ok = given == self.server.login
        self.send_response(200 if ok else 401)
        self.end_headers()
        self.wfile.write(json.dumps({"token": "a-token"}).encode() if ok else b"")

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without engines and logins."""
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "DOCKER_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path


def pinned(image: str) -> str:
    return str(with_digests([{"image": image}])[0]["image"])


def test_its_registry_is_asked_once_for_all_jobs(registry: Registry, home: Path) -> None:
    tag = f"{registry.address}/team/mine:1"
    specs = with_digests([{"image": tag, "name": "a"}, {"image": tag}, {"name": "plain"}])
    assert [spec.get("image") for spec in specs] == [f"{tag}@{DIGEST}", f"{tag}@{DIGEST}", None]
    assert len(registry.asked) == 2  # without a token, and with one


def test_a_digest_is_taken_as_it_is(registry: Registry, home: Path) -> None:
    image = f"{registry.address}/team/mine@{DIGEST}"
    assert pinned(image) == image
    assert registry.asked == []


def test_the_login_of_this_machine_is_used(registry: Registry, home: Path) -> None:
    registry.login = base64.b64encode(b"ann:secret").decode()
    tag = f"{registry.address}/team/mine:1"
    with pytest.raises(RefusedError, match="nobody could say"):
        pinned(tag)
    (home / ".docker").mkdir()
    logins = {"auths": {registry.address: {"auth": registry.login}}}
    (home / ".docker/config.json").write_text(json.dumps(logins))
    assert pinned(tag) == f"{tag}@{DIGEST}"


def test_an_engine_here_that_has_it_is_asked_next(home: Path) -> None:
    (home / "bin").mkdir()
    program = home / "bin" / "docker"
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$5" = localhost/mine:2 ] && echo "localhost/mine@{DIGEST} sha256:0" && exit 0\n'
        f'[ "$5" = built:latest ] && echo {DIGEST} && exit 0\n'
        "exit 1\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert pinned("localhost/mine:2") == f"localhost/mine:2@{DIGEST}"


def test_where_nobody_knows_it_is_refused_with_the_way_to_find_out(
    registry: Registry, home: Path
) -> None:
    with pytest.raises(RefusedError) as raised:
        pinned(f"{registry.address}/team/other:7")
    error = raised.value
    assert error.code == "image-unresolved"
    assert "it has no team/other:7" in error.why
    assert "no podman and no docker here" in error.why
    assert f"podman pull {registry.address}/team/other:7" in str(error.hint)
