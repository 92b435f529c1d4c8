"""A secret's value never leaves the worker: a job says it in every way, then every file is read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e

TOKEN = "cAnArY+/s3cret'\"<&>%zQ9 tail"
KEY = "-----BEGIN KEY-----\nMIIcAnArYline1abcdef\nsecondcAnArYline2\n-----END KEY-----"
MARKS = (b"cAnArY", b"63416e417259", b"63416E417259", b"Y0FuQXJZ", b"NBbkFyW", b"jQW5Bcl")
"""What is in every way of saying it: plain, hexadecimal, and base64 at each of its shifts."""

SAYS = r"""
import base64, html, json, os, shlex, sys, urllib.parse
token, key = os.environ["TOKEN"], os.environ["KEY"]
raw = token.encode()
forms = [token, key, json.dumps(token), json.dumps(key), repr(token), repr(raw), repr({"k": key}),
         html.escape(token), shlex.quote(token), urllib.parse.quote(token), raw.hex(),
         urllib.parse.quote_plus(token), urllib.parse.quote(token, safe=""), raw.hex().upper(),
         key.replace("\n", "\r\n"), "\r\n".join(token[n:n + 7] for n in range(0, len(token), 7)),
         *(base64.b64encode(b"abc"[:n] + raw).decode() for n in range(3)),
         *(base64.urlsafe_b64encode(b"abc"[:n] + raw).decode() for n in range(3)),
         base64.b64encode(key.encode()).decode(), base64.encodebytes(raw * 4).decode()]
for form in forms:
    print(form, flush=True)
    print(form, file=sys.stderr, flush=True)
for letter in token:
    os.write(1, letter.encode())
raise RuntimeError("bad " + token)
"""

MODULE = """
import os
import gpulayer as gl

@gl.remote(secrets=["TOKEN"])
def raises():
    raise ValueError("bad " + os.environ["TOKEN"])

@gl.remote(secrets=["TOKEN"])
def returns():
    return {os.environ["TOKEN"]: [1, "x" + os.environ["TOKEN"]]}
"""


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome(TOKEN=TOKEN, KEY=KEY) as home:
        (home.work / "says.py").write_text(SAYS)
        (home.work / "module.py").write_text(MODULE)
        yield home


def found_in(folder: Path) -> list[str]:
    """Files whose bytes or name hold a mark."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [
        str(path)
        for path in files
        if any(mark in bytes_of(path) + os.fsencode(path.name) for mark in MARKS)
    ]


def bytes_of(path: Path) -> bytes:
    """None of a file that went meanwhile."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def python(home: LocalHome, *words: str, **environ: str) -> Any:
    return subprocess.run(
        [sys.executable, *words],
        env=home.environ | environ,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )


SECRETS = ("--secret", "TOKEN", "--secret", "KEY")


def test_whatever_a_job_prints(home: LocalHome) -> None:
    said = python(home, "-m", "gpulayer", "run", *SECRETS, "--", sys.executable, "says.py")
    assert said.returncode == 1
    for out in (said.stdout, said.stderr):
        assert not any(mark in out for mark in MARKS)
        assert out.count(b"[redacted:") >= 20
    assert python(home, "-m", "gpulayer", "submit", *SECRETS, "--", "true").returncode == 0
    home.until(lambda: all(job["finished_at"] for job in home.jobs()))
    home.until(lambda: found_in(home.folder / "home") == [])
    assert home.stop()
    assert found_in(home.folder / "home") == []


def test_what_a_function_returns_or_raises(home: LocalHome) -> None:
    code = (
        "import module\nprint(module.returns.remote())\n"
        "try: module.raises.remote()\nexcept Exception as e: print(e, repr(e.__cause__))"
    )
    told = python(home, "-c", code)
    assert told.returncode == 0, told.stderr
    hidden = b"{'[redacted:TOKEN]': [1, 'x[redacted:TOKEN]']}\n"
    assert told.stdout.startswith(hidden)
    assert b"ValueError('bad [redacted:TOKEN]')" in told.stdout
    home.until(lambda: found_in(home.folder / "home") == [])  # its workspace goes after its end


def test_the_name_of_an_output(home: LocalHome) -> None:
    home.environ["TOKEN"] = "plain-cAnArY-value"
    script = (
        'cd "$GPULAYER_OUTPUT_DIR"; echo 1 >good; echo 2 >"a-$TOKEN"; mkdir "$TOKEN"; >"$TOKEN/b"'
    )
    done = python(home, "-m", "gpulayer", "run", "--secret", "TOKEN", "--", "sh", "-c", script)
    assert done.returncode == 0
    job = home.jobs()[0]["id"]
    home.until(lambda: home.wire().call("GET", f"/v1/jobs/{job}")["finished_at"])
    found = home.wire().call("GET", f"/v1/jobs/{job}")
    assert [output["path"] for output in found["outputs"]] == ["good"]
    assert "2 with a secret in the name" in found["message"]
    home.until(lambda: found_in(home.folder / "home") == [])


def test_no_process_of_ours_shows_it(home: LocalHome) -> None:
    client = home.popen("sh", "-c", "exec sleep 600")
    home.until_running(1)
    for kind in home.processes():
        for file in ("cmdline", "environ"):
            assert b"cAnArY" not in Path(f"/proc/{home.pid(kind)}/{file}").read_bytes()
    client.kill()
    client.wait(SECONDS)


@pytest.mark.parametrize(("value", "slug"), [("", "secret-missing"), ("abc", "secret-unsafe")])
def test_a_value_that_cannot_be_hidden_is_refused(home: LocalHome, value: str, slug: str) -> None:
    words = ("-m", "gpulayer", "run", "--secret", "TOKEN", "--", "echo", "began")
    refused = python(home, *words, TOKEN=value)
    assert (refused.returncode, refused.stdout) == (126, b"")
    assert refused.stderr.startswith(b"error[%b]: " % slug.encode())
