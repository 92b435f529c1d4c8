"""`gpulayer env`: environments of jobs, made ahead of time, listed, removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import duration_text
from gpulayer.errors import UsageError
from gpulayer.sdk import environments
from gpulayer.sdk.environments import KEY

HEADERS = ("KEY", "WORKER", "MADE FROM", "PYTHON", "SIZE", "LAST USED", "USED BY")
_SHOWN = 40


@click.command("env")
@click.argument("action", type=click.Choice(["prepare", "ls", "rm"]))
@click.argument("words", nargs=-1, metavar="[REQ|KEY]...")
@options(
    "requirement", "unused", "on", "gpus", "gpu_memory", "accelerator", "profile", "python", "data",
    "prepare_timeout", "json", "quiet",
)  # fmt: skip
def command(
    action: str,
    words: tuple[str, ...],
    requirement: tuple[str, ...],
    unused: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Prepare environments ahead of time, list them, or remove some by their keys.

    `prepare -r FILE` makes one on every worker that matches the other options, as a job that names
    the same requirements would find it. `ls` lists those of all workers. `rm` never removes one
    that a job uses; `rm --unused` removes all others.
    """
    if action == "prepare":
        from gpulayer.cli.env_prepare import prepare

        if unused:
            raise UsageError("usage", "--unused is for `env rm`", hint="gpulayer env rm --unused")
        return prepare((*requirement, *words), flags, as_json=as_json, quiet=quiet)
    given = [name for name, value in flags.items() if value and name != "on"]
    if requirement or given or (action == "ls" and (words or unused)):
        raise UsageError(
            "usage",
            f"`env {action}` takes {'keys' if action == 'rm' else 'no words'}, --on and --json",
            hint="gpulayer env --help",
        )
    if action == "ls":
        return _list(flags["on"], as_json, quiet)
    return _remove(words, unused, flags["on"], as_json, quiet)


def _list(on: str | None, as_json: bool, quiet: bool) -> int:
    workers = environments.listed(connect().call, on)
    rows = [(worker, env) for worker in workers for env in worker["environments"] or ()]
    if as_json:
        render.json_document({"workers": workers})
    elif quiet:
        for key in dict.fromkeys(env["key"] for _, env in rows):
            render.data(key)
    elif rows:
        now = SystemClock().now()
        render.table(HEADERS, [_row(worker, env, now) for worker, env in rows])
    elif all(one["environments"] is not None for one in workers):
        render.say("there is no environment")
    return _say_silent(workers, "environments", quiet=quiet)


def _row(worker: Mapping[str, Any], env: Mapping[str, Any], now: float) -> tuple[str, ...]:
    return (
        env["key"][:KEY],
        worker["name"],
        made_from(env),
        env["version"],
        render.size(env["bytes"]),
        f"{duration_text(max(0.0, now - env['used_at']))} ago",
        ", ".join(env["used_by"]) or "-",
    )


def made_from(env: Mapping[str, Any]) -> str:
    """Its file and requirements, in a few words."""
    text = render.plain(" ".join(filter(None, [env.get("file"), *env["requirements"]])))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _say_silent(workers: list[dict[str, Any]], answer: str, *, quiet: bool) -> int:
    """1 where some have not answered."""
    silent = [one for one in workers if one[answer] is None]
    if not quiet:
        for one in silent:
            render.say(render.plain(f"{one['name']}: no answer: {one['why']}"))
    return int(bool(silent))


def _remove(keys: tuple[str, ...], unused: bool, on: str | None, as_json: bool, quiet: bool) -> int:
    done = environments.removed(connect().call, keys, unused=unused, on=on)
    gone = list(environments.of_all(done, "removed"))
    if as_json:
        render.json_document({"workers": done})
    elif not quiet:
        for worker, one in gone:
            render.say(
                f"removed {one['key'][:KEY]} of {worker['name']}, {render.size(one['bytes'])}"
            )
    silent = _say_silent(done, "answer", quiet=quiet)
    if wrong := environments.complaint(done, keys):
        raise wrong
    if not (quiet or as_json):
        kept = list(environments.of_all(done, "kept"))
        for worker, one in kept:
            users = f": {', '.join(one['used_by'])}" if one["used_by"] else ""
            render.say(f"kept {one['key'][:KEY]} of {worker['name']}, {one['why']}{users}")
        if unused and not silent and not kept and not gone:
            render.say("there is no environment")
    return silent
