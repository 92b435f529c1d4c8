"""What a job's standard input, output and error are joined to, decided by how the client stands.

A terminal is mirrored, a pipe stays a pipe (research: the same world). Standard input that is no
terminal is the client's own descriptor; output is always copied. Two outputs that are one file at
the client's are one channel here, so their order is exact.
"""

from __future__ import annotations

import os

from gpulayer.runtime import frames, segments, terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gpulayer.runtime.attaches import Attach

MIRRORS = {"PAGER": "cat", "GIT_PAGER": "cat"}
"""For a job that sees a screen but has no keyboard: a pager would wait for keys for ever."""


class Source:
    """One read end: what comes out of it, under which labels.

    `copying` is a byte shared with the task's keeper, not 0 while bytes were read and are not yet
    in the log: should the supervisor die then, the keeper says that some are missing.
    """

    __slots__ = ("copying", "fd", "frame", "rank", "stream")

    def __init__(self, fd: int, stream: int, frame: str, rank: int | None = None) -> None:
        self.fd = fd
        self.stream = stream
        self.frame = frame
        self.rank = rank
        """Of a distributed job: whose output it is. None: the task's own."""
        self.copying = memoryview(bytearray(1))


class Plumbing:
    """The ends of one job's streams. `job` and `held` are closed by who forks, `sources` and
    `keyboard` by who reads."""

    def __init__(self) -> None:
        self.job: list[int] = [-1, -1, -1]
        self.sources: list[Source] = []
        self.controls = -1
        self.keyboard = -1
        """Where keys for the job are written, or -1."""
        self.held: list[int] = []
        """Slave sides, kept open until the leader has ended, so that a job may close and reopen
        its terminal without our seeing an end."""
        self.environ: dict[str, str] = {}

    def close_job_ends(self) -> None:
        """After the fork. Terminals stay until `close_held`."""
        for fd in set(self.job) - set(self.held):
            if fd >= 0:
                os.close(fd)

    def close_held(self) -> None:
        for fd in self.held:
            os.close(fd)
        self.held = []
        self.controls = -1

    def close(self) -> None:
        """Everything, for a job that will not be."""
        self.close_job_ends()
        self.close_held()
        for source in self.sources:
            os.close(source.fd)
        self.sources = []
        if self.keyboard >= 0:
            os.close(self.keyboard)
            self.keyboard = -1


def standard_input(wish: str | None, attach: Attach | None) -> int:
    """A descriptor of the watching client's, or of the file that `wish` is the path of; -1 where
    the job shall read nothing."""
    if wish == "attach":
        return attach.take_stdin() if attach is not None else -1
    if wish is not None and wish.startswith("/"):
        return os.open(wish, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    return -1


def lay(
    attach: dict[str, Any] | None, stdin: int, pipes: Sequence[dict[str, Any]] = ()
) -> Plumbing:
    """For the streams an `attach` describes; None for a job that nobody watches. `stdin` is a
    descriptor to hand on, which this takes over, or -1. `pipes` are named pipes of ranks."""
    plumbing = Plumbing()
    try:
        _lay(plumbing, attach or {}, stdin)
        plumbing.sources += [_of_rank(pipe) for pipe in pipes]
    except BaseException:
        plumbing.close()
        raise
    return plumbing


def _lay(plumbing: Plumbing, attach: dict[str, Any], stdin: int) -> None:
    kinds = attach.get("streams") or {}
    settings = attach.get("terminal") or {}
    plumbing.job[0] = stdin
    if attach.get("mode") == "terminal":
        master, slave = terminal.controlling(settings)
        plumbing.controls = slave
        plumbing.held.append(slave)
        plumbing.sources.append(Source(master, segments.BOTH, frames.TERMINAL))
        plumbing.keyboard = os.dup(master)
        for number in range(3):
            if kinds.get(str(number)) == "terminal":
                _replace(plumbing.job, number, slave)
    if plumbing.job[0] < 0:
        plumbing.job[0] = os.open(os.devnull, os.O_RDONLY)
    _lay_outputs(plumbing, kinds, settings, bool(attach.get("merged")))


def _lay_outputs(
    plumbing: Plumbing, kinds: dict[str, Any], settings: dict[str, Any], merged: bool
) -> None:
    if merged and plumbing.job[1] < 0 and plumbing.job[2] < 0:
        fd = _channel(plumbing, kinds.get("1"), settings, segments.BOTH, frames.TERMINAL)
        plumbing.job[1] = plumbing.job[2] = fd
        return
    labels = {1: (segments.STDOUT, frames.STDOUT), 2: (segments.STDERR, frames.STDERR)}
    for number, (stream, frame) in labels.items():
        if plumbing.job[number] < 0:
            kind = kinds.get(str(number))
            plumbing.job[number] = _channel(plumbing, kind, settings, stream, frame)


def _channel(
    plumbing: Plumbing, kind: str | None, settings: dict[str, Any], stream: int, frame: str
) -> int:
    if kind == "terminal":
        reader, writer = terminal.screen(settings)
        plumbing.held.append(writer)
        plumbing.environ = MIRRORS
    else:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
    plumbing.sources.append(Source(reader, stream, frame))
    return writer


def _of_rank(pipe: dict[str, Any]) -> Source:
    """Opened for both, so that no rank waits for a reader and none that leaves is the end."""
    fd = os.open(pipe["path"], os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    frame = frames.STDERR if pipe["stream"] == segments.STDERR else frames.STDOUT
    return Source(fd, pipe["stream"], frame, pipe["rank"])


def _replace(job: list[int], number: int, fd: int) -> None:
    if job[number] >= 0:
        os.close(job[number])
    job[number] = fd
