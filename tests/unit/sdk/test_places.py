"""Places: which folders and sockets a terminal means, and which it must not trust."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.errors import StorageError
from gpulayer.sdk.places import SOCKET_PATH_LIMIT, Machine, Places, filesystem_of

LOCAL = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Shorter than pytest's own: a socket path has 107 bytes."""
    folder = tempfile.mkdtemp(prefix="g")
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    shared = tmp_path / "t"
    shared.mkdir()
    return Machine(host="lab", mounts=lambda: LOCAL, shared_folders=(str(shared),))


def test_the_home_is_the_one_that_was_named(tmp_path: Path, machine: Machine) -> None:
    places = Places.find({"GPULAYER_HOME": str(tmp_path / "h"), "HOME": "/nowhere"}, machine)
    assert places.home == str(tmp_path / "h")
    assert places.database == str(tmp_path / "h" / "db.sqlite")
    assert places.plane_socket.startswith(str(tmp_path / "t" / f"gpulayer-{os.getuid()}"))


def test_the_default_home_is_the_platforms_data_folder(tmp_path: Path, machine: Machine) -> None:
    user = {"HOME": str(tmp_path)}
    assert Places.find(user, machine).home == f"{tmp_path}/.local/share/gpulayer"
    data = {**user, "XDG_DATA_HOME": str(tmp_path / "d")}
    assert Places.find(data, machine).home == f"{tmp_path}/d/gpulayer"
    mac = Machine(mounts=lambda: "", shared_folders=machine.shared_folders, platform="darwin")
    assert Places.find(user, mac).home == f"{tmp_path}/Library/Application Support/gpulayer"


def test_a_link_to_a_home_is_the_same_home(tmp_path: Path, machine: Machine) -> None:
    (tmp_path / "h").mkdir()
    (tmp_path / "l").symlink_to(tmp_path / "h")
    direct = Places.find({"GPULAYER_HOME": str(tmp_path / "h")}, machine)
    linked = Places.find({"GPULAYER_HOME": str(tmp_path / "l")}, machine)
    assert linked.argv() == direct.argv()


def test_each_home_has_sockets_of_its_own(tmp_path: Path, machine: Machine) -> None:
    one, two = (
        Places.find({"GPULAYER_HOME": str(tmp_path / name)}, machine) for name in ("a", "b")
    )
    assert one.runtime != two.runtime


def test_a_private_session_folder_comes_first(tmp_path: Path, machine: Machine) -> None:
    session = tmp_path / "run"
    session.mkdir(mode=0o700)
    environ = {"GPULAYER_HOME": str(tmp_path / "h"), "XDG_RUNTIME_DIR": str(session)}
    assert Places.find(environ, machine).runtime.startswith(f"{session}/gpl-")
    session.chmod(0o777)
    assert not Places.find(environ, machine).runtime.startswith(str(session))


def test_a_socket_path_that_would_not_fit_falls_back(tmp_path: Path, machine: Machine) -> None:
    deep = tmp_path / ("x" * 80)
    deep.mkdir(mode=0o700)
    environ = {"GPULAYER_HOME": str(tmp_path / "h"), "XDG_RUNTIME_DIR": str(deep)}
    longest = Places.find(environ, machine).plane_socket + ".4194304"
    assert len(longest) <= SOCKET_PATH_LIMIT
    assert str(deep) not in longest


def test_the_longest_path_that_fits_is_used(tmp_path: Path) -> None:
    tail = "/gpl-0123456789abcdef/p.sock.4194304"
    room = SOCKET_PATH_LIMIT - len(str(tmp_path)) - 1 - len(tail)
    for length, fits in ((room, True), (room + 1, False)):
        session = tmp_path / ("s" * length)
        session.mkdir(mode=0o700)
        machine = Machine(mounts=lambda: LOCAL, shared_folders=("/tmp",))
        environ = {"GPULAYER_HOME": str(tmp_path / "h"), "XDG_RUNTIME_DIR": str(session)}
        assert Places.find(environ, machine).runtime.startswith(str(session)) is fits


def test_the_runtime_folder_of_the_living_plane_counts(tmp_path: Path, machine: Machine) -> None:
    environ = {"GPULAYER_HOME": str(tmp_path / "h")}
    places = Places.find(environ, machine)
    places.create(machine)
    Path(places.plane_lock).write_text(f"123\n{places.runtime}\n")
    session = tmp_path / "run"
    session.mkdir(mode=0o700)
    elsewhere = {**environ, "XDG_RUNTIME_DIR": str(session)}
    assert Places.find(elsewhere, machine).runtime.startswith(str(session))
    Path(places.plane_socket).touch()
    assert Places.find(elsewhere, machine).runtime == places.runtime


def test_a_network_home_keeps_database_and_sockets_on_local_disk(
    tmp_path: Path, machine: Machine
) -> None:
    home = tmp_path / "net" / "gpulayer"
    mounts = LOCAL + f"31 22 0:40 / {tmp_path}/net rw - nfs4 box:/export rw\n"
    lab = Machine(host="lab", mounts=lambda: mounts, shared_folders=machine.shared_folders)
    den = Machine(host="den", mounts=lambda: mounts, shared_folders=machine.shared_folders)
    places = Places.find({"GPULAYER_HOME": str(home)}, lab)
    other = Places.find({"GPULAYER_HOME": str(home)}, den)
    for path in (places.database, places.plane_lock, places.supervisor_dir, places.plane_socket):
        assert not path.startswith(str(home))
    assert places.database != other.database
    assert places.artifacts != other.artifacts
    assert places.artifacts.startswith(str(home))
    assert "network file system (nfs4)" in places.notice


def test_a_machine_whose_every_disk_is_of_that_kind_moves_nothing(tmp_path: Path) -> None:
    machine = Machine(mounts=lambda: "22 1 0:1 / / rw - 9p none rw\n")
    places = Places.find({"GPULAYER_HOME": str(tmp_path / "h")}, machine)
    assert places.database.startswith(str(tmp_path))
    assert places.notice == ""


def test_the_notice_is_said_once(tmp_path: Path) -> None:
    places = Places(str(tmp_path), str(tmp_path / "r"))
    assert places.say_once() == ""
    places.notice = "moved"
    assert [places.say_once(), places.say_once()] == ["moved", ""]


def test_the_innermost_mount_decides() -> None:
    mounts = (
        LOCAL + "31 22 0:40 / /home rw - nfs box:/h rw\n32 31 8:2 / /home/a\\040b rw - xfs d rw\n"
    )
    assert filesystem_of("/home/u/x", mounts) == "nfs"
    assert filesystem_of("/home/a b/x", mounts) == "xfs"
    assert filesystem_of("/homes", mounts) == "ext4"
    assert filesystem_of("/homes", "") == ""


def test_created_folders_are_private(tmp_path: Path, machine: Machine) -> None:
    places = Places.find({"GPULAYER_HOME": str(tmp_path / "h")}, machine)
    places.create(machine)
    places.create(machine)
    for folder in (places.home, places.runtime, places.envelopes):
        assert os.stat(folder).st_mode & 0o777 == 0o700


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, machine: Machine) -> None:
    (tmp_path / "h").mkdir()
    stranger = Machine(uid=os.getuid() + 1, mounts=lambda: LOCAL, shared_folders=(str(tmp_path),))
    places = Places(str(tmp_path / "h"), str(tmp_path / "r"))
    with pytest.raises(StorageError, match="must be private") as caught:
        places.create(stranger)
    assert caught.value.code == "folder-unsafe"


def test_a_link_in_the_place_of_the_users_folder_is_refused(
    tmp_path: Path, machine: Machine
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "t" / f"gpulayer-{os.getuid()}").symlink_to(target)
    with pytest.raises(StorageError, match="must be private"):
        Places.find({"GPULAYER_HOME": str(tmp_path / "h")}, machine)


def test_a_home_that_others_may_write_is_refused(tmp_path: Path, machine: Machine) -> None:
    home = tmp_path / "h"
    home.mkdir()
    home.chmod(0o777)
    places = Places.find({"GPULAYER_HOME": str(home)}, machine)
    with pytest.raises(StorageError) as caught:
        places.create(machine)
    assert caught.value.hint == f"chmod 700 {home}"


def test_daemons_are_told_the_places_by_their_arguments(tmp_path: Path) -> None:
    places = Places("/h", "/r", state="/s", bulk="/b")
    assert Places.from_argv(places.argv()).argv() == ["/h", "/r", "/s", "/b"]
