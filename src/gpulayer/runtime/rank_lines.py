"""Output of several ranks on one screen or pipe: whole lines, each with its rank where it helps.

Two ranks that write to one pipe break each other's lines; what a rank says is held here up to the
end of its line. A carriage return ends one too, so that a progress bar moves.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpulayer.runtime.plumbing import Source

LONGEST = 1 << 16
"""A longer line is passed on in pieces."""


class RankLines:
    """One stream of one rank."""

    def __init__(self, label: bytes = b"") -> None:
        self._label = label
        self._open = b""

    @property
    def is_open(self) -> bool:
        """Whether a line has begun that has not ended."""
        return bool(self._open)

    def feed(self, data: bytes) -> bytes:
        """The lines that are whole by now, labelled."""
        self._open += data
        end = max(self._open.rfind(b"\n"), self._open.rfind(b"\r")) + 1
        if not end and len(self._open) >= LONGEST:
            end = len(self._open)
        whole, self._open = self._open[:end], self._open[end:]
        return self._labelled(whole)

    def rest(self) -> bytes:
        """What has no end of line, at the end of all."""
        rest, self._open = self._open, b""
        return self._labelled(rest)

    def _labelled(self, whole: bytes) -> bytes:
        if not self._label or not whole:
            return whole
        return b"".join(self._label + line for line in whole.splitlines(keepends=True))


def label(rank: int) -> bytes:
    return b"[r%d] " % rank


def element_label(index: int) -> bytes:
    """Of an element of an array."""
    return b"[%d] " % index


def of(sources: Iterable[Source], labelled: Iterable[int]) -> dict[Source, RankLines]:
    """For each output of a rank, where there are several ranks. `labelled`: the descriptors of
    the watcher (1, 2) on which a person reads."""
    ours = [source for source in sources if source.rank is not None]
    if len({source.rank for source in ours}) < 2:
        return {}
    seen = frozenset(labelled)
    return {
        source: RankLines(label(source.rank or 0) if int(source.frame) in seen else b"")
        for source in ours
    }
