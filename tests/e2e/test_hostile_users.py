"""Two users of one machine: neither reaches the other's plane, supervisor, files or jobs."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.runtime import frames
from tests.support.faults import NEEDS_ROOT, as_nobody
from tests.support.local_home import LocalHome

pytestmark = [pytest.mark.e2e, NEEDS_ROOT]


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        home.run("true", check=0)
        yield home


def ask_plane(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(path)
        sock.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n")
        if not sock.recv(1):
            raise ConnectionResetError


def ask_supervisor(path: str) -> None:
    with frames.connect(path) as connection:
        try:
            connection.call("list")
        except EOFError:
            raise ConnectionResetError from None


def test_sockets_answer_their_own_user_alone(home: LocalHome) -> None:
    plane, supervisor = home.places.plane_socket, home.places.supervisor_socket
    ask_plane(plane)
    ask_supervisor(supervisor)
    assert not as_nobody(lambda: ask_plane(plane))
    assert not as_nobody(lambda: ask_supervisor(supervisor))
    opened = [home.folder, home.folder / "run", Path(home.places.runtime)]
    for path in (*opened, Path(plane), Path(supervisor)):
        path.chmod(0o777)
    assert as_nobody(lambda: socket.socket(socket.AF_UNIX).connect(plane))
    assert not as_nobody(lambda: ask_plane(plane))
    assert not as_nobody(lambda: ask_supervisor(supervisor))
    for path in opened:
        path.chmod(0o700)
    assert home.run("echo", "well", check=0).stdout == b"well\n"


def test_files_can_be_read_by_their_own_user_alone(home: LocalHome) -> None:
    home.run("sh", "-c", 'echo x > "$GPULAYER_OUTPUT_DIR/kept"', check=0)
    folders = [home.folder / "home", Path(home.places.runtime)]
    walked = [found for folder in folders for found in os.walk(folder)]  # some go meanwhile
    files = [Path(here, name) for here, *below in walked for name in ("", *below[0], *below[1])]
    assert len(files) > 20
    for path in files:
        try:
            mode = path.lstat().st_mode & 0o077
        except FileNotFoundError:
            continue  # it went meanwhile
        is_inside = any(parent in folders for parent in path.parents)
        assert mode == 0 or is_inside, path
    home.folder.chmod(0o755)
    for folder in folders:
        assert not as_nobody(lambda folder=folder: os.listdir(folder))  # type: ignore[misc]
