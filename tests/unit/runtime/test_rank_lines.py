"""Lines of several ranks: whole, in order, and labelled where a person reads them."""

from __future__ import annotations

from hypothesis import given, strategies as st

from gpulayer.runtime import frames, rank_lines, segments
from gpulayer.runtime.plumbing import Source
from gpulayer.runtime.rank_lines import LONGEST, RankLines


@given(st.lists(st.binary(max_size=20)), st.sampled_from([b"", b"[r3] "]))
def test_nothing_is_lost_and_what_comes_out_early_ends_with_a_line(
    pieces: list[bytes], label: bytes
) -> None:
    lines = RankLines(label)
    early = [lines.feed(piece) for piece in pieces]
    assert all(out == b"" or out[-1:] in b"\r\n" for out in early)
    said = b"".join(early) + lines.rest()
    whole = b"".join(pieces)
    assert said == b"".join(label + line for line in whole.splitlines(keepends=True))
    assert lines.rest() == b""


def test_a_line_without_an_end_is_passed_on_in_pieces() -> None:
    lines = RankLines()
    assert lines.feed(b"x" * (LONGEST - 1)) == b""
    assert len(lines.feed(b"x")) == LONGEST


def test_one_rank_alone_is_left_as_it_is_and_labels_are_for_terminals() -> None:
    def source(rank: int | None, frame: str = frames.STDOUT) -> Source:
        return Source(9, segments.STDOUT, frame, rank)

    assert rank_lines.of([source(None), source(0), source(0, frames.STDERR)], [1, 2]) == {}
    both = [source(None), source(0), source(1, frames.STDERR)]
    found = rank_lines.of(both, [2])
    assert [found[one].feed(b"a\n") for one in both[1:]] == [b"a\n", b"[r1] a\n"]
