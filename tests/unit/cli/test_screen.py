"""A log may not command the terminal that shows it; a pipe gets every byte."""

from __future__ import annotations

import io

import pytest

from gpulayer.cli.screen import Screen, without_commands


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", b"\x1b[31mred\x1b[0m"),
        (b"a\x1b]0;title\x07b", b"ab"),
        (b"a\x1b]52;c;aGk=\x1b\\b", b"ab"),
        (b"a\x1b[2Jb\x1b[10;10Hc", b"abc"),
        (b"a\x1b[cb", b"ab"),
        (b"10%\r20%\n", b"10%\r20%\n"),
        (b"bell\x07", b"bell"),
        (b"tab\there", b"tab\there"),
        ("é".encode(), "é".encode()),
    ],
)
def test_only_colours_reach_a_terminal(written: bytes, shown: bytes) -> None:
    assert without_commands(written) == shown


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_command_cut_in_two_is_still_left_out(cut: int) -> None:
    sink = io.BytesIO()
    screen = Screen(Terminal(sink))
    text = b"a\x1b]0;title\x07b"
    screen.write(text[:cut])
    screen.write(text[cut:])
    assert sink.getvalue() == b"ab"


def test_a_pipe_gets_every_byte() -> None:
    sink = io.BytesIO()
    pipe = io.TextIOWrapper(sink)
    Screen(pipe).write(bytes(range(256)))
    assert sink.getvalue() == bytes(range(256))
