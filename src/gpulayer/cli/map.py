"""`gpulayer map MODULE:FUNCTION`: one job that calls a function for each item, its results as lines
of JSON. What `f.map` is to a program."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from gpulayer.cli import carry, render
from gpulayer.cli.flags import function_workload, server_for, spec_from, starting_options
from gpulayer.cli.outcome import exit_code, explained
from gpulayer.cli.session import connect_to, options
from gpulayer.errors import UsageError
from gpulayer.sdk.array_words import ITEMS, with_bare_matrix
from gpulayer.sdk.describe import FUNCTION

if TYPE_CHECKING:
    from gpulayer.sdk.elements import Element
    from gpulayer.sdk.job import Job

TOLD = 10
"""Failed calls that are named one by one; `status` names all."""
TERMINATED = 143


class Mapped(click.Command):
    """What follows `:::` is items, also where it begins with a dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        at = words.index(ITEMS) if ITEMS in words else len(words)
        rest = super().parse_args(ctx, with_bare_matrix(words[:at]))
        items = tuple(words[at + 1 :])
        if at < len(words) and not items:
            raise UsageError("usage", f"'{ITEMS}' lacks items", hint=_EXAMPLE)
        if ITEMS in items:
            raise UsageError("usage", f"'{ITEMS}' comes twice", hint=_PAIRS)
        ctx.params["items"] = items
        return rest


@click.command("map", cls=Mapped)
@starting_options
@options("over", "kwargs", "unordered", "detach", "dry_run", "json", "quiet")
@click.argument("words", nargs=-1, required=True, metavar="MODULE:FUNCTION [::: ITEM...]")
def command(
    words: tuple[str, ...],
    items: tuple[str, ...],
    over: str | None,
    kwargs: str | None,
    unordered: bool,
    detach: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Call a function for each item, and print what it returned: a line of JSON each, in the order
    of the items.

    Items are lines of JSON (--over), lines of text (--each-line), words behind :::, indices
    (--array 0-99) or combinations (--matrix). Exit code: 1 where a call failed; in its line stands
    {"$gpulayer": 1, "error": ...}. --json: index, state and exit code in each line.
    """
    function, *others = words
    if others:
        hint = shlex.join(["gpulayer", "map", function, ITEMS, *others, *items])
        raise UsageError("usage", f"items are said behind '{ITEMS}'", hint=hint)
    if not FUNCTION.fullmatch(function):
        raise UsageError(
            "usage",
            f"'{function}' is no function, which is module:function",
            why="a command over items is run: gpulayer run -- echo {item} ::: a b c",
            hint=_EXAMPLE,
        )
    if not detach:
        flags["on_unschedulable"] = flags["on_unschedulable"] or "fail"
    server = server_for(flags)
    from gpulayer.cli.submit import queue
    from gpulayer.sdk.calls import written_json
    from gpulayer.sdk.connect import client_of
    from gpulayer.sdk.values import Arguments

    with Arguments(lambda: connect_to(server)) as arguments:
        placed = _items(over, flags["each_line"], items)
        calls = None if placed is None else written_json(placed, arguments)
        workload = function_workload(function, None, kwargs, "gpulayer map {} ::: 1 2 3")
        spec = spec_from(workload, {**flags, "each_line": None}, server, calls)
        if "array" not in spec:
            raise UsageError("usage", "there are no items to call it for", hint=_EXAMPLE)
        if dry_run:
            from gpulayer.cli.plan import show

            return show(spec, [function], server, flags, as_json, quiet)
        arguments.flush()
    is_talking = sys.stderr.isatty() and not quiet
    spec = carry.carry(spec, flags, server, is_talking=is_talking)
    job = queue(spec, flags["idempotency_key"], server, refresh=flags["refresh"])
    if detach:
        render.data(job["id"])
        return 0
    if is_talking:
        render.say(f"job {job['id']}")
    with client_of(server) as client:
        _print(client.job(job["id"]), unordered, as_json, quiet)
    ended = carry.ended(wire := connect_to(server), job["id"])
    if ended["state"] != "succeeded":
        render.error(explained(wire, ended))
    return exit_code(ended)


def _items(
    over: str | None, each_line: str | None, words: tuple[str, ...]
) -> Iterator[tuple[str, Any]] | None:
    """None: there are none of these; a range or a matrix makes its own."""
    from gpulayer.sdk.item_lines import json_lines, lines_as_texts, words_as_values

    if (over is not None) + (each_line is not None) + bool(words) > 1:
        raise UsageError(
            "usage", "items come from one place: --over, --each-line or :::", hint=_EXAMPLE
        )
    if over is not None:
        return json_lines(over, "--over")
    if each_line is not None:
        return lines_as_texts(each_line, "--each-line")
    return words_as_values(words) if words else None


def _print(job: Job, unordered: bool, as_json: bool, quiet: bool) -> None:
    """Print what comes of it until all has ended. Ctrl-C and SIGTERM cancel it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    mapped = job.results(progress=False if quiet else None)
    failed = 0
    try:
        for element in mapped.as_completed() if unordered else mapped.elements():
            if not element.attempt and job.refresh()["reason"] == "unschedulable":
                break
            render.data(json.dumps(element.to_json() if as_json else _value(element)))
            sys.stdout.flush()
            if element.state != "succeeded" and element.attempt:
                failed += 1
                if failed <= TOLD:
                    render.say(render.plain(f"item {element.index} {_how(element)}"))
    except (KeyboardInterrupt, SystemExit):
        job.cancel()
        render.say(f"{job.id} is cancelled; what has ended is kept: gpulayer result {job.id}")
        raise
    except BrokenPipeError:
        render.say(f"{job.id} goes on: gpulayer result {job.id}")
        raise


def _value(element: Element) -> Any:
    """What it returned; of one that failed something that no function returns."""
    told = element.to_json()
    if element.state == "succeeded":
        return told.get("value")
    return {"$gpulayer": 1, "error": _error(told)}


def _error(told: Mapping[str, Any]) -> str:
    error = told.get("error") or {}
    words = [str(error.get(key) or "") for key in ("type", "message")]
    return ": ".join(filter(None, words)) or str(told["state"]).replace("_", " ")


def _how(element: Element) -> str:
    told = element.to_json()
    words = element.state.replace("_", " ")
    if told.get("error"):
        return f"{words}: {_error(told)}"
    code = element.exit_code
    return words if code is None else f"{words}, exit code {code}"


_EXAMPLE = "gpulayer map train:main ::: 1 2 3"
_PAIRS = "gpulayer map train:main --matrix lr=0.1,0.01 seed=1,2"
