"""What is measured beside others, like with like. Rates are better when larger, times when less."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measure:
    slug: str
    about: str
    unit: str
    kind: str
    """What a task is: a function in a process that lives on, one in a process of its own, or a
    command."""

    def ratio(self, ours: float, theirs: float) -> float:
        """How much better ours is: 2 is twice as good, 0.5 half as good."""
        return ours / theirs if self.unit == "/s" else theirs / ours


MEASURES = {
    measure.slug: measure
    for measure in (
        Measure("call", "one call of a function, to its value", "ms", "function"),
        Measure("map", "10,000 no-op calls through one map", "/s", "function"),
        Measure("submits", "no-op calls, each submitted by itself", "/s", "function"),
        Measure("fresh", "one call in a process of its own", "ms", "process"),
        Measure("command", "one `true`, until its end is seen", "ms", "command"),
        Measure("commands", "1,000 `true`, given out together", "/s", "command"),
        Measure("jobs", "1,000 `true`, each a job of its own", "/s", "command"),
        Measure("cold", "nothing running, to the first result", "ms", "function"),
        Measure("help", "its command line's `--help`", "ms", "-"),
        Measure("memory", "idle, all processes (PSS)", "MiB", "-"),
    )
}
