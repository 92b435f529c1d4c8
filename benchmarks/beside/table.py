"""The figures of one run beside each other: a table for a terminal, and a picture.

The picture has a bar for each figure, on a scale of tens, ours first: it is read by length alone,
so it says beside each bar what the figure is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.beside.measures import MEASURES, Measure
from benchmarks.beside.peers import OURS, PEERS
from benchmarks.figures import Figure

WIDTH, LABEL, ROW, GAP = 760, 230, 17, 30
_DOES = {peer.name: peer.does for peer in PEERS}


def rows(found: Sequence[Figure]) -> Iterator[str]:
    """A block for each measure, best first; `x` says how many times better ours is."""
    for measure, figures in _by_measure(found):
        ours = next((f.value for f in figures if f.name == OURS), None)
        yield f"\n{measure.about} ({measure.unit}; {measure.kind})"
        for figure in figures:
            ratio = "" if ours is None else f"{measure.ratio(ours, figure.value):>9.2f} x"
            does = _DOES.get(figure.name, "nothing")
            yield f"  {figure.name:<36} {figure.value:>12,.1f} {ratio}  {does}"


def picture(found: Sequence[Figure], machine: str) -> str:
    """The same as an SVG: what is long is good for rates, what is short for times."""
    drawn: list[str] = []
    y = 20
    for measure, figures in _by_measure(found):
        better = "more" if measure.unit == "/s" else "less"
        drawn.append(f'<text x="8" y="{y}" class="t">{escape(measure.about)}: '
                     f"{escape(measure.unit)}, {better} is better</text>")  # fmt: skip
        y += 8
        low = math.log10(min(f.value for f in figures)) - 0.5
        span = math.log10(max(f.value for f in figures)) - low
        for figure in figures:
            long = max(2.0, (WIDTH - LABEL - 90) * (math.log10(figure.value) - low) / span)
            ours = "o" if figure.name.startswith(OURS) else "p"
            drawn.append(
                f'<text x="{LABEL - 6}" y="{y + 12}" class="n">{escape(figure.name)}</text>'
                f'<rect x="{LABEL}" y="{y + 2}" width="{long:.0f}" height="{ROW - 4}" '
                f'class="{ours}"/>'
                f'<text x="{LABEL + long + 5:.0f}" y="{y + 12}">{figure.value:,.1f}</text>'
            )
            y += ROW
        y += GAP
    style = ("text{font:12px sans-serif;fill:#333}.t{font-weight:bold}.n{text-anchor:end}"
             ".o{fill:#1a7f37}.p{fill:#b8c0cc}")  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 10}" role="img">'
        f"<title>Measured beside others, bars on a scale of tens; {escape(machine)}</title>"
        f'<style>{style}</style><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(drawn)}"
        f'<text x="8" y="{y}">Bars on a scale of tens. {escape(machine)}</text></svg>\n'
    )


def _by_measure(found: Sequence[Figure]) -> Iterator[tuple[Measure, list[Figure]]]:
    for slug, measure in MEASURES.items():
        of_it = [f for f in found if f.measure == slug and f.value > 0]
        of_it.sort(key=lambda f: f.value, reverse=measure.unit == "/s")
        if of_it:
            yield measure, of_it
