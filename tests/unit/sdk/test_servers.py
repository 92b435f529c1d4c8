"""Known servers: what is kept, who may read it, and which plane is meant."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpulayer.api.endpoints import Far
from gpulayer.errors import GPULayerError
from gpulayer.sdk.servers import Server, Servers, chosen, read_token

PIN = "cd" * 32
LAB = Far("10.0.0.5", 8765, PIN)
URL = f"gl://10.0.0.5:8765/sha256.{PIN}"


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path / "home")


def refused(call: object, *args: object) -> GPULayerError:
    with pytest.raises(GPULayerError) as raised:
        call(*args)  # type: ignore[operator]
    return raised.value


def test_nothing_said_is_the_local_plane_and_writes_nothing(home: str) -> None:
    assert chosen(home, {}) is None
    assert not os.path.exists(home)


def test_a_server_is_chosen_as_it_is_added(home: str) -> None:
    Servers(home).add("lab", LAB, "gplc_secret")
    assert chosen(home, {}) == Server("lab", LAB, "gplc_secret")
    Servers(home).use("local")
    assert chosen(home, {}) is None
    Servers(home).use("lab")
    assert chosen(home, {}) == Server("lab", LAB, "gplc_secret")


def test_a_token_is_for_its_owner_alone_and_nowhere_else(home: str) -> None:
    former = os.umask(0)
    try:
        Servers(home).add("lab", LAB, "gplc_secret")
    finally:
        os.umask(former)
    file = Servers(home).token_file("lab")
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(file)).st_mode) == 0o700
    assert "secret" not in Path(home, "servers.json").read_text()
    assert "secret" not in repr(Servers(home).get("lab"))


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o606, 0o644])
def test_a_token_that_others_can_read_is_not_used(home: str, mode: int) -> None:
    Servers(home).add("lab", LAB, "gplc_secret")
    file = Servers(home).token_file("lab")
    os.chmod(file, mode)
    error = refused(chosen, home, {})
    assert error.code == "token-unsafe"
    assert error.help == (f"chmod 600 {file}",)
    os.chmod(file, 0o600)
    assert chosen(home, {}) is not None


def test_a_link_in_place_of_a_token_is_not_followed(home: str, tmp_path: Path) -> None:
    Servers(home).add("lab", LAB, "gplc_secret")
    file = Servers(home).token_file("lab")
    os.rename(file, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", file)
    assert refused(chosen, home, {}).code == "token-unsafe"
    os.unlink(file)
    os.mkfifo(file, 0o600)
    assert refused(chosen, home, {}).code == "token-unsafe"
    os.unlink(file)
    assert refused(chosen, home, {}).code == "token-unsafe"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_token_of_another_user_is_not_used(home: str) -> None:
    Servers(home).add("lab", LAB, "gplc_secret")
    os.chown(Servers(home).token_file("lab"), 12345, -1)
    error = refused(read_token, Servers(home).token_file("lab"))
    assert error.code == "token-unsafe"
    assert "12345" in error.why


def test_a_server_that_is_removed_is_forgotten_with_its_token(home: str) -> None:
    Servers(home).add("lab", LAB, "gplc_secret")
    Servers(home).remove("lab")
    assert chosen(home, {}) is None
    assert Servers(home).all() == {}
    assert os.listdir(os.path.join(home, "tokens")) == []
    assert refused(Servers(home).remove, "lab").code == "server-not-found"


def test_an_unknown_name_is_refused_with_the_known_ones(home: str) -> None:
    Servers(home).add("lab", LAB, "t")
    error = refused(Servers(home).use, "lob")
    assert error.code == "server-not-found"
    assert "local, lab" in error.why
    assert Servers(home).current() == "lab"


@pytest.mark.parametrize("name", ["", "local", "../x", "a/b", ".x", "a\nb", "x" * 64])
def test_names_that_could_be_paths_are_refused(home: str, name: str) -> None:
    assert refused(Servers(home).add, name, LAB, "t").code == "usage"
    assert not os.path.exists(home)


def test_logins_at_once_lose_none(home: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: Servers(home).add(f"s{n}", LAB, "t"), range(16)))
    assert len(Servers(home).all()) == 16


@pytest.mark.parametrize("text", ["", "{", "[]", '{"servers": 3}', '{"servers": {"a": 1}}'])
def test_a_damaged_list_says_so_and_is_left_alone(home: str, text: str) -> None:
    os.mkdir(home)
    file = Path(home, "servers.json")
    file.write_text(text)
    assert refused(chosen, home, {}).code == "corrupt"
    assert refused(Servers(home).use, "local").code == "corrupt"
    assert file.read_text() == text


def test_what_a_newer_version_wrote_beside_is_no_fault(home: str) -> None:
    Servers(home).add("lab", LAB, "t")
    file = Path(home, "servers.json")
    known = json.loads(file.read_text())
    known["servers"]["lab"]["colour"] = "blue"
    file.write_text(json.dumps(known))
    assert chosen(home, {}) == Server("lab", LAB, "t")


def test_the_environment_comes_first(home: str) -> None:
    Servers(home).add("lab", LAB, "t")
    found = chosen(home, {"GPULAYER_URL": "http://127.0.0.1:80", "GPULAYER_TOKEN": "e"})
    assert found is not None
    assert (found.endpoint, found.token) == (Far("127.0.0.1", 80), "e")


@pytest.mark.parametrize(
    ("environ", "code"),
    [
        ({"GPULAYER_URL": URL}, "usage"),
        ({"GPULAYER_TOKEN": "t"}, "usage"),
        ({"GPULAYER_URL": URL.replace("/sha", "/CODE-sha"), "GPULAYER_TOKEN": "t"}, "usage"),
        ({"GPULAYER_URL": URL, "GPULAYER_TOKEN": "a\r\nX-Evil: 1"}, "usage"),
        ({"GPULAYER_URL": URL, "GPULAYER_TOKEN": "tö"}, "usage"),
        ({"GPULAYER_URL": "http://10.0.0.5:1", "GPULAYER_TOKEN": "t"}, "not-encrypted"),
    ],
)
def test_variables_that_do_not_fit_are_refused(
    home: str, environ: dict[str, str], code: str
) -> None:
    assert refused(chosen, home, environ).code == code
