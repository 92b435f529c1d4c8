"""The world of a terminal: what is captured, what is left out, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpulayer.errors import RefusedError
from gpulayer.sdk import world
from gpulayer.sdk.identity import own_identity, require_same

CAPTURE = """
import json, sys
from gpulayer.sdk import world
seen = world.of_terminal(sys.argv[1:])
print(json.dumps([seen.envelope, seen.line, seen.visible_gpus, seen.parent_job]))
"""


def in_a_terminal(
    folder: Path, environ: dict[bytes, bytes], *argv: str, before: str = ""
) -> tuple[dict[str, Any], list[str], list[str] | None, str | None]:
    """What the command line captures in a process of its own; `before`: what the shell does
    first (not always a shell, since dash drops variables with odd names)."""
    source = str(Path(world.__file__).parents[2]).encode()
    shell = ["/bin/sh", "-c", f'{before}exec "$0" "$@"'] if before else []
    command = [*shell, sys.executable, "-c", CAPTURE, *argv]
    whole = {b"PATH": os.defpath.encode(), b"PYTHONPATH": source, **environ}
    done = subprocess.run(command, cwd=folder, env=whole, check=True, stdout=subprocess.PIPE)
    envelope, line, gpus, parent = json.loads(done.stdout)
    return envelope, line, gpus, parent


def test_the_environment_is_the_one_that_was_typed_in(tmp_path: Path) -> None:
    odd = {b"ODD": b"\xff\xfe", b"BASH_FUNC_f%%": b"() { echo; }", b"LANG": b"C"}
    envelope, _, _, _ = in_a_terminal(tmp_path, odd, "make")
    entries = {os.fsencode(entry) for entry in envelope["environ"]}
    assert {b"ODD=\xff\xfe", b"BASH_FUNC_f%%=() { echo; }", b"LANG=C"} <= entries
    assert not any(entry.startswith(b"LC_CTYPE") for entry in entries)


def test_what_speaks_of_the_client_or_an_outer_job_is_left_out(tmp_path: Path) -> None:
    outer = {b"GPULAYER_JOB_ID": b"a-1", b"UV_INTERNAL__X": b"1", b"NOTIFY_SOCKET": b"/n"}
    kept = {b"GPULAYER_URL": b"http://x", b"GPULAYER_TOKEN": b"t", b"UV": b"/uv"}
    envelope, _, _, parent = in_a_terminal(tmp_path, outer | kept, "make")
    names = {entry.split("=")[0] for entry in envelope["environ"]}
    assert names.isdisjoint(name.decode() for name in outer)
    assert names >= {name.decode() for name in kept}
    assert parent == "a-1"


def test_umask_limits_nice_and_ignored_signals_travel(tmp_path: Path) -> None:
    before = 'umask 027; ulimit -Sn 99; trap \'\' HUP; set -- nice -n 3 "$0" "$@"; exec "$@"; '
    envelope, _, _, _ = in_a_terminal(tmp_path, {}, "make", before=before)
    assert envelope["umask"] == 0o027
    assert envelope["rlimits"]["NOFILE"][0] == 99
    assert envelope["nice"] == os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert envelope["ignored_signals"] == [1]
    assert envelope["affinity"] == sorted(os.sched_getaffinity(0))


def test_the_folder_is_named_as_the_shell_names_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    link = tmp_path / "link"
    envelope, _, _, _ = in_a_terminal(link, {b"PWD": bytes(link)}, "make")
    assert envelope["cwd"] == str(link)
    assert envelope["cwd_ino"] == link.stat().st_ino
    stale, _, _, _ = in_a_terminal(link, {b"PWD": b"/"}, "make", before="PWD=/; export PWD; ")
    assert stale["cwd"] == str(tmp_path / "real")


def test_a_deleted_folder_still_has_its_name(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    envelope, _, _, _ = in_a_terminal(gone, {b"PWD": bytes(gone)}, "make", before='rmdir "$PWD"; ')
    assert envelope["cwd"] == str(gone)
    assert envelope["cwd_ino"] > 0


def test_a_venv_in_the_folder_is_activated_in_the_envelope(tmp_path: Path) -> None:
    venv = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    envelope, line, _, _ = in_a_terminal(tmp_path, {}, "python", "t.py")
    assert f"VIRTUAL_ENV={venv}" in envelope["environ"]
    assert f"PATH={venv}/bin:{os.defpath}" in envelope["environ"]
    assert envelope["interpreter"]["why"] == ".venv"
    assert line == ["python", "t.py"]


def test_hidden_gpus_are_a_restriction(tmp_path: Path) -> None:
    assert in_a_terminal(tmp_path, {}, "make")[2] is None
    assert in_a_terminal(tmp_path, {b"CUDA_VISIBLE_DEVICES": b""}, "make")[2] == []
    some = in_a_terminal(tmp_path, {b"CUDA_VISIBLE_DEVICES": b"1, GPU-a"}, "make")[2]
    assert some == ["1", "GPU-a"]


def test_a_program_gives_the_environment_as_it_has_made_it() -> None:
    os.environ["GPULAYER_TEST_MARK"] = "made"
    try:
        seen = world.of_program()
    finally:
        del os.environ["GPULAYER_TEST_MARK"]
    seen.close()
    assert "GPULAYER_TEST_MARK=made" in seen.envelope["environ"]
    assert seen.interpreter.path == sys.executable


def test_the_same_world_is_accepted() -> None:
    require_same(own_identity())
    require_same({})


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        ({"ns": {"mnt": 1}}, "other files"),
        ({"ns": {"net": 1}}, "other network"),
        ({"root": [1, 2]}, "another root folder"),
        ({"uid": 12345}, "user 12345"),
    ],
)
def test_another_world_is_refused(theirs: dict[str, Any], why: str) -> None:
    with pytest.raises(RefusedError) as caught:
        require_same(theirs)
    assert caught.value.code == "wrong-world"
    assert why in caught.value.why


def test_a_supervisor_without_our_groups_is_refused_with_a_way_out() -> None:
    mine = {"uid": 5, "gid": 5, "groups": [44, 109], "ns": {}, "root": [1, 1]}
    with pytest.raises(RefusedError) as caught:
        require_same({"uid": 5, "gid": 5, "groups": [44]}, mine)
    assert "109" in caught.value.why
    assert caught.value.hint == "gpulayer stop"
