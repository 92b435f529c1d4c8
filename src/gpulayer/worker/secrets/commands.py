"""The value that a command prints.

It runs without a shell, below `runtime.builder`, with nothing to read. What it says on standard
error is thrown away: it may hold the value. Whatever ends the wait, no process of it is left.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from gpulayer.clock import Clock
from gpulayer.runtime import builder, processes
from gpulayer.worker.environments.building import TakenBackError
from gpulayer.worker.secrets.files import VALUE_BYTES, text_of
from gpulayer.worker.secrets.sources import Unusable

SECONDS = 30.0
LOOK_SECONDS = 0.1
"""How soon one is ended that nobody wants any more."""
MARK = "GPULAYER_TELLS"
"""In the environment of all that belongs to one run of a command."""
_SHOWN = "what it said is thrown away, since it may hold the value: run it on that machine to see"


def printed(
    words: Sequence[str],
    environ: Mapping[str, str],
    clock: Clock,
    is_wanted: Callable[[], bool],
    mark: str,
    seconds: float = SECONDS,
) -> str:
    """Less one line break at its end. `mark` is no other run's. Raises `Unusable`, and
    `TakenBackError` once it `is_wanted` no more."""
    if shutil.which(words[0], path=environ.get("PATH")) is None:
        raise _no_value("its command is not there, or not on the worker's PATH")
    try:
        begun = subprocess.Popen(
            builder.words(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**environ, MARK: mark},
            start_new_session=True,
        )
    except OSError as error:
        raise _no_value("its command cannot be started", error.strerror or "") from None
    assert begun.stdin is not None
    assert begun.stdout is not None
    try:
        data = _read(begun.stdout.fileno(), clock, is_wanted, seconds)
    finally:
        begun.stdin.close()  # its end, if it has not come yet
        begun.stdout.close()
        if begun.poll() is None:
            begun.terminate()
        code = begun.wait()
        if code < 0:  # the parent of it all was killed before it could clear up
            processes.end_marked(f"{MARK}={mark}".encode())
    if code:
        raise _no_value(f"its command ended with exit code {code}", _SHOWN)
    text = text_of(data)
    if text is None:
        nothing = not data.strip(b"\n")
        raise _no_value("its command printed " + ("nothing" if nothing else "what is no text"))
    return text


def _read(fd: int, clock: Clock, is_wanted: Callable[[], bool], seconds: float) -> bytes:
    """All that it prints until its end, which is the end of the pipe: the builder holds that too,
    and ends last."""
    data = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    end = clock.monotonic() + seconds
    while True:
        if not is_wanted():
            raise TakenBackError
        left = end - clock.monotonic()
        if left <= 0:
            raise _no_value(f"its command did not end within {seconds:g} s, and was killed")
        if poll.poll(min(left, LOOK_SECONDS) * 1000):
            more = os.read(fd, VALUE_BYTES + 1)
            data += more
            if not more:
                return data
            if len(data) > VALUE_BYTES:
                raise _no_value(
                    f"its command printed more than {VALUE_BYTES} bytes, and was killed"
                )


def _no_value(what: str, why: str = "") -> Unusable:
    return Unusable("secret-missing", f"has no value: {what}", why, "gpulayer help secrets")
