"""`gpulayer run -- LINE` sees what `LINE` sees in the same terminal: streams, codes, world."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_home import RUN, SECONDS, LocalHome

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    """A plane that was started from another kind of terminal: another folder, umask, language,
    limits and niceness, so that whatever leaked from it would show."""
    with LocalHome() as home:
        awkward = 'umask 077; ulimit -Sn 256; cd /; exec nice -n 5 "$@"'
        other = {**home.environ, "LANG": "de_DE.UTF-8", "LEAKED": "yes"}
        command = ["/bin/sh", "-c", awkward, "sh", *RUN, "true"]
        subprocess.run(command, env=other, check=True, timeout=SECONDS)
        yield home


def both(home: LocalHome, script: str, *, shell: str = "sh", **how: Any) -> tuple[Any, Any]:
    """What a shell makes of `script`, bare and with `run`: there `$R` stands for nothing, here
    for `gpulayer run --`."""
    how = {"cwd": home.work, "capture_output": True, "timeout": SECONDS, **how}
    environ = how.pop("env", home.environ)
    results = []
    for prefix in ("", shlex.join(RUN)):
        whole = f'R() {{ {prefix} "$@"; }}; {script}' if prefix else f'R() {{ "$@"; }}; {script}'
        done = subprocess.run([shell, "-c", whole], env=environ, **how)
        results.append((done.stdout, done.stderr, done.returncode))
    return results[0], results[1]


@pytest.mark.parametrize(
    "script",
    [
        "R sh -c 'exit 0'",
        "R sh -c 'exit 1'",
        "R sh -c 'exit 255'",
        "R sh -c 'exit 256'",
        "R python3 -c 'import sys; sys.exit(-1)'",
        "R sh -c 'kill -9 $$'; echo rc=$?",
        "R sh -c 'kill -11 $$'; echo rc=$?",
        "R sh -c 'kill -15 $$'; echo rc=$?",
        "R sh -c 'kill -2 $$'; echo rc=$?",
    ],
)
def test_exit_codes_are_the_jobs(home: LocalHome, script: str) -> None:
    expected, ours = both(home, f"exec 2>/dev/null; {script}")
    assert ours == expected


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("no-such-command", 127),
        ("./no-such-file", 127),
        ("./not-executable", 126),
        ("./a-folder", 126),
        ("./not-executable/x", 126),
        ("./lost-interpreter", 127),
        ("./no-shebang", 7),
    ],
)
def test_what_cannot_be_started_has_the_shells_code(
    home: LocalHome, command: str, code: int
) -> None:
    (home.work / "a-folder").mkdir(exist_ok=True)
    for name, text, mode in (
        ("not-executable", "#!/bin/sh\n", 0o644),
        ("lost-interpreter", "#!/no/such/interpreter\n", 0o755),
        ("no-shebang", "exit 7\n", 0o755),
    ):
        (home.work / name).write_text(text)
        (home.work / name).chmod(mode)
    expected, ours = both(home, f"R {command}", shell="bash")
    assert ours[2] == expected[2] == code


@pytest.mark.parametrize(
    "script",
    [
        "R cat < lines",
        "cat lines | R wc -l",
        "while read x; do echo $x; R true; done < lines",
        "while read x; do echo $x; R head -n 1; done < lines",
        "while read x; do echo $x; R cat; done < lines",
        "R sh -c 'echo out; echo err >&2' 2>/dev/null",
        "R sh -c 'echo out; echo err >&2' 2>&1",
        "R yes | head -n 3",
        "R python3 -c 'import os; os.write(1, bytes(range(256)) * 400)'",
        "R sh -c 'for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done' 2>&1",
        "R python3 -c 'print(1); import sys; print(sys.stdin.isatty(), sys.stdout.isatty())'",
    ],
)
def test_streams_are_the_lines_own(home: LocalHome, script: str) -> None:
    (home.work / "lines").write_text("".join(f"line {n}\n" for n in range(5)))
    expected, ours = both(home, script)
    assert ours == expected


def test_a_megabyte_each_way_is_exact(home: LocalHome) -> None:
    data = os.urandom(5 << 20)
    done = home.run("cat", input=data, check=0)
    assert done.stdout == data


def test_order_is_kept_where_both_outputs_are_one(home: LocalHome) -> None:
    code = "import os\nfor n in range(4000):\n    os.write(1 + n % 2, b'%d\\n' % n)\n"
    done = home.run(sys.executable, "-c", code, stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
    assert done.stdout == b"".join(b"%d\n" % n for n in range(4000))


def test_a_reader_that_leaves_ends_the_job(home: LocalHome) -> None:
    script = "R yes | head -n 1 > /dev/null; echo ${PIPESTATUS[0]}"
    expected, ours = both(home, script, shell="bash")
    assert ours[0] == expected[0] == b"141\n"


@pytest.mark.parametrize(
    "script",
    [
        "umask 027; R sh -c 'umask; echo x > made; stat -c %a made; rm made'",
        "ulimit -Sn 99; R sh -c 'ulimit -Sn; ulimit -Hn'",
        "ulimit -c 0; ulimit -Ss 1024; R sh -c 'ulimit -Sc; ulimit -Ss'",
        "R nice",
        "R locale",
        "export A='two words' LC_ALL=C; R sh -c 'echo $A $LC_ALL'",
        "mkdir -p d; ln -sfn d link; cd link; R sh -c 'pwd; pwd -P'",
        "trap '' HUP; R sh -c 'grep SigIgn /proc/self/status'",
        "R sh -c 'grep -E \"Sig(Ign|Blk|Cgt)\" /proc/self/status'",
        "R sh -c 'grep Cpus_allowed_list /proc/self/status'",
        "PATH=$PWD:$PATH; printf '#!/bin/sh\\necho mine\\n' > tool; chmod +x tool; R tool",
        "R sh -c 'ls -l /proc/self/fd | wc -l'",
        "R sh -c 'id'",
    ],
)
def test_the_world_is_the_terminals(home: LocalHome, script: str) -> None:
    expected, ours = both(home, script)
    assert ours == expected


def test_the_environment_is_the_terminals_and_a_few_of_ours(home: LocalHome) -> None:
    expected, ours = both(home, "R env -0")
    assert _variables(ours[0]).keys() - _variables(expected[0]).keys() <= {
        "GPULAYER_JOB_ID",
        "GPULAYER_ATTEMPT",
        "GPULAYER_INPUT_DIR",
        "GPULAYER_OUTPUT_DIR",
        "GPULAYER_WORKSPACE",
        "GPULAYER_METRICS_FILE",
        "GPULAYER_FENCE",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "HIP_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
    same = {
        name: value
        for name, value in _variables(expected[0]).items()
        if not name.startswith(("CUDA_", "GPULAYER_"))
    }
    assert same.items() <= _variables(ours[0]).items()
    assert b"LEAKED" not in ours[0]


def test_odd_bytes_travel_in_arguments_and_environment(home: LocalHome) -> None:
    environ = {os.fsencode(k): os.fsencode(v) for k, v in home.environ.items()}
    environ[b"ODD"] = b"\xff\xfe"
    code = "import os, sys; os.write(1, os.fsencode(sys.argv[1]) + os.environb[b'ODD'])"
    done = subprocess.run(
        [*RUN, sys.executable, "-c", code, b"\xe9\n'\""],
        env=environ,
        cwd=home.work,
        capture_output=True,
        timeout=SECONDS,
    )
    assert done.stdout == b"\xe9\n'\"\xff\xfe"


def test_a_large_environment_fits_where_it_fits_bare(home: LocalHome) -> None:
    environ = home.environ | {f"BIG{n}": "x" * 100_000 for n in range(10)}
    done = home.run("sh", "-c", "echo ${#BIG9}", env=environ, check=0)
    assert done.stdout == b"100000\n"


def test_a_deleted_folder_is_said(home: LocalHome) -> None:
    script = "mkdir gone; cd gone; rmdir ../gone; R sh -c 'echo here'"
    _, ours = both(home, script)
    assert ours[2] == 126
    assert b"error[folder-gone]" in ours[1]


def test_a_closed_input_is_an_empty_one(home: LocalHome) -> None:
    _, ours = both(home, "R cat <&-")
    assert ours == (b"", b"", 0)


def test_term_to_the_client_cancels_its_job(home: LocalHome) -> None:
    client = home.popen("sh", "-c", "echo up; exec sleep 100", stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"up\n"
    client.terminate()
    assert client.wait(SECONDS) == -signal.SIGTERM
    client.stdout.close()
    home.until(lambda: home.jobs()[0]["state"] == "cancelled")


def test_ctrl_c_twice_ends_a_job_that_ignores_it(home: LocalHome) -> None:
    client = home.popen(
        "sh",
        "-c",
        "trap '' INT; echo up; sleep 100; sleep 100",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert client.stdout is not None
    assert client.stderr is not None
    assert client.stdout.readline() == b"up\n"
    client.send_signal(signal.SIGINT)
    said = client.stderr.readline()
    assert b"interrupting" in said
    assert b"SIGINT, TERM in 10 s, then KILL" in said
    client.send_signal(signal.SIGINT)
    assert b"killing" in client.stderr.readline()
    assert client.wait(SECONDS) == -signal.SIGKILL
    for stream in (client.stdout, client.stderr):
        stream.close()


def test_a_killed_client_leaves_its_job_and_the_whole_log(home: LocalHome) -> None:
    go = home.folder / "go"
    os.mkfifo(go)
    script = f"echo first; read x < {go}; echo second; exit 7"
    client = home.popen("sh", "-c", script, stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"first\n"
    client.kill()
    client.wait(SECONDS)
    client.stdout.close()
    go.write_text("on\n")
    home.until(lambda: home.jobs()[0]["state"] == "failed")
    assert home.jobs()[0]["exit_code"] == 7
    assert home.log(home.jobs()[0]["id"]) == b"first\nsecond\n"


def test_every_attempt_is_shown_and_the_last_one_counts(home: LocalHome) -> None:
    script = "echo attempt $GPULAYER_ATTEMPT; test $GPULAYER_ATTEMPT = 2 || exit 3; exit 4"
    retrying = [*RUN[:-1], "--retries", "1", "--retry-on", "failed", "--"]
    done = subprocess.run(
        [*retrying, "sh", "-c", script],
        env=home.environ,
        cwd=home.work,
        capture_output=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.returncode) == (b"attempt 1\nattempt 2\n", 4)


def test_a_core_file_is_the_jobs_alone(home: LocalHome) -> None:
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    client = home.popen("sh", "-c", "kill -SEGV $$")
    assert client.wait(SECONDS) == -signal.SIGSEGV
    assert resource.getrlimit(resource.RLIMIT_CORE) == limit
    assert not list(home.work.glob("core*"))


PREFIX = "import sys; print(sys.prefix, sys.version.split()[0])"


def python_row(name: str, home: LocalHome, folder: Path) -> tuple[dict[str, str], str]:
    """An environment and the word typed, for one row of the interpreter table."""
    path = home.environ["PATH"]
    venv = folder / ".venv"
    if name in ("active", "inactive"):
        make = [sys.executable, "-m", "venv", "--without-pip", str(venv)]
        subprocess.run(make, check=True)
    if name == "active":
        return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:{path}"}, "python"
    if name == "dockerfile":
        opt = folder / "opt"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(opt)], check=True)
        return {"PATH": f"{opt}/bin:{path}"}, "python"
    if name == "system":
        return {"PATH": "/usr/bin:/bin"}, "python3"
    return {}, "python"


@pytest.mark.parametrize("row", ["active", "dockerfile", "system", "as it is"])
def test_python_is_the_one_of_the_bare_line(home: LocalHome, tmp_path: Path, row: str) -> None:
    changes, word = python_row(row, home, tmp_path)
    environ = {**home.environ, **changes}
    command = [word, "-c", PREFIX]
    bare = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, check=True)
    done = home.run(*command, env=environ, cwd=tmp_path, check=0)
    assert done.stdout == bare.stdout


def test_a_venv_in_the_folder_is_used_without_activation(home: LocalHome, tmp_path: Path) -> None:
    python_row("inactive", home, tmp_path)
    below = tmp_path / "below"
    below.mkdir()
    done = home.run("python", "-c", PREFIX, cwd=below, check=0)
    assert done.stdout.split()[0].decode() == str(tmp_path / ".venv")


def test_uv_run_runs_the_projects_python(home: LocalHome, tmp_path: Path) -> None:
    uv = shutil.which("uv", path=os.path.dirname(sys.executable)) or shutil.which("uv")
    assert uv is not None
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "0"\n')
    environ = {**home.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_OFFLINE": "1"}
    command = [uv, "run", "--python", sys.executable, "--"]
    how: dict[str, Any] = {"cwd": tmp_path, "env": environ, "capture_output": True}
    bare = subprocess.run([*command, "python", "-c", PREFIX], **how, check=True)
    ours = subprocess.run([*command, *RUN, "python", "-c", PREFIX], **how, timeout=SECONDS)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == bare.stdout
    assert str(tmp_path / ".venv") in ours.stdout.decode()


def _variables(block: bytes) -> dict[str, bytes]:
    pairs = (entry.partition(b"=") for entry in block.split(b"\0") if entry)
    return {name.decode(): value for name, _, value in pairs if name != b"_"}
