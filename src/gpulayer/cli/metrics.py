"""`gpulayer metrics JOB [NAME]`: what a job has reported of itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.cli.wait import leave
from gpulayer.errors import NotFoundError

PARK_SECONDS = 25.0
_BARS = "▁▂▃▄▅▆▇█"
_NARROW, _WIDE = 24, 60
"""Characters of a picture in the table, and of one series."""


@click.command("metrics")
@click.argument("job", default="last")
@click.argument("name", required=False)
@options("index", "follow", "json", "quiet")
def command(
    job: str, name: str | None, index: int | None, follow: bool, as_json: bool, quiet: bool
) -> None:
    """Print the newest values that a job has reported; with NAME all values of that one.

    -f follows the values of NAME until the job has ended. -q prints names alone, or values alone.

    A job reports with gpulayer.report(loss=0.5), a Trainer does so by itself, and any program adds
    lines such as {"step": 1, "values": {"loss": 0.5}} to the file $GPULAYER_METRICS_FILE.
    """
    wire = connect()
    job_id = wire.call("GET", job_path(job))["id"]
    query: dict[str, Any] = {} if index is None else {"index": index}
    if name is not None:
        query["name"] = name
    if follow and name is None:
        raise click.UsageError("-f follows one metric: name it")

    def ask(after: int = 0, park: float = 0.0) -> dict[str, Any]:
        path = job_path(job_id, "metrics", points=1, after=after, wait=park, **query)
        return dict(wire.call("GET", path, park=park))

    told = ask()
    if as_json and not follow:
        render.json_document({"job": job_id, "series": told["series"]})
    elif name is None:
        _table(job_id, told["series"], quiet)
    else:
        if not told["series"] and not follow:
            _require_some(job_id, name, wire.call("GET", job_path(job_id, "metrics")))
        shown: set[tuple[Any, ...]] = set()
        _lines(told["series"], shown, quiet)
        try:
            while follow and not told["ended"]:
                told = ask(told["next"], PARK_SECONDS)
                _lines(told["series"], shown, quiet)
        except KeyboardInterrupt:
            leave(job_id)
        if not quiet and not follow:
            _picture(told["series"])


def _table(job_id: str, series: Sequence[dict[str, Any]], quiet: bool) -> None:
    """A line for each series. Of an array with the index of its element."""
    if quiet:
        for each in dict.fromkeys(one["name"] for one in series):
            render.data(each)
        return
    if not series:
        render.say(f"{job_id} has reported no metrics")
        render.say("  help: gpulayer help metrics")
        return
    is_array = any(one["index"] for one in series)
    draws = _draws()
    head = ["METRIC", *(["INDEX"] if is_array else []), "LAST", "STEP", "LEAST", "GREATEST", "AT"]
    rows = [
        [
            one["name"],
            *([str(one["index"])] if is_array else []),
            _number(one["last"]["value"]),
            str(one["last"]["step"]),
            _number(one["least"]),
            _number(one["greatest"]),
            render.moment(one["last"]["at"]),
            *([drawn(_values(one), _NARROW)] if draws else []),
        ]
        for one in series
    ]
    render.table([*head, *([""] if draws else [])], rows)


def _lines(series: Sequence[dict[str, Any]], shown: set[tuple[Any, ...]], quiet: bool) -> None:
    """One for each point that is not among those shown, to which it is added."""
    is_array = any(one["index"] for one in series)
    for one in series:
        for point in one["points"]:
            if (mark := (one["index"], *point.values())) in shown:
                continue
            shown.add(mark)
            value = _number(point["value"])
            whose = f"[{one['index']}]  " if is_array else ""
            line = f"{render.moment(point['at'])}  {whose}{point['step']:>8}  {value}"
            render.data(value if quiet else line)
    sys.stdout.flush()


def _picture(series: Sequence[dict[str, Any]]) -> None:
    if not _draws():
        return
    for one in series:
        if len(one["points"]) > 1 and one["least"] is not None:
            least, greatest = _number(one["least"]), _number(one["greatest"])
            width = min(_WIDE, render.columns() - len(least) - len(greatest) - 4)
            render.data(f"{drawn(_values(one), width)}  {least} to {greatest}")


def drawn(values: Sequence[float | None], width: int) -> str:
    """Bars between the least and the greatest; a blank where there is no number."""
    width = min(max(width, 1), len(values))
    largest = max((abs(v) for v in values if v is not None), default=0.0) or 1.0
    shares = [None if v is None else v / largest for v in values]  # their sums are no infinity
    pieces = [
        shares[at * len(shares) // width : (at + 1) * len(shares) // width] for at in range(width)
    ]
    means = [
        sum(good) / len(good) if (good := [v for v in piece if v is not None]) else None
        for piece in pieces
    ]
    numbers = [mean for mean in means if mean is not None]
    if not numbers:
        return ""
    least, room = min(numbers), max(numbers) - min(numbers)
    top = len(_BARS) - 1
    return "".join(
        " " if mean is None else _BARS[round((mean - least) / room * top) if room else 0]
        for mean in means
    )


def _values(one: dict[str, Any]) -> list[float | None]:
    return [None if isinstance(p["value"], str) else p["value"] for p in one["points"]]


def _number(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.6g}"


def _draws() -> bool:
    """Whether there is a terminal that shows such letters."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return sys.stdout.isatty() and encoding == "utf8"


def _require_some(job_id: str, name: str, told: dict[str, Any]) -> None:
    names = list(dict.fromkeys(one["name"] for one in told["series"]))
    has = f"it has {', '.join(names[:8])}" if names else "it has reported none yet"
    raise NotFoundError(
        "metric-not-found", f"{job_id} has no metric '{name}'", why=has,
        hint=f"gpulayer metrics {job_id}",
    )  # fmt: skip
