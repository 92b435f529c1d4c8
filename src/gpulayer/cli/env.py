"""`gpulayer env`: environments of jobs, made ahead of time, listed, removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import duration_text
from gpulayer.errors import NotFoundError, RefusedError, UsageError

HEADERS = ("KEY", "WORKER", "MADE FROM", "PYTHON", "SIZE", "LAST USED", "USED BY")
PARK = 60.0
KEY = 12
"""Characters of a key that are shown."""
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
    if bool(words) is unused:
        raise UsageError("usage", "which? Name keys, or --unused", hint="gpulayer env ls")
    return _remove(words, unused, flags["on"], as_json, quiet)


def _list(worker: str | None, as_json: bool, quiet: bool) -> int:
    path = f"/v1/caches?what=environments&wait={PARK / 2:g}"
    found = connect().call("GET", path, park=PARK)["workers"]
    workers = [one for one in found if worker in (None, one["id"], one["name"])]
    if worker is not None and not workers:
        raise NotFoundError(
            "worker-not-found", f"no worker is called {worker!r}", hint="gpulayer workers"
        )
    rows = [(w, env) for w in workers for env in (w["answer"] or {}).get("environments", ())]
    if as_json:
        render.json_document({"workers": [_told(one) for one in workers]})
    elif quiet:
        for key in dict.fromkeys(env["key"] for _, env in rows):
            render.data(key)
    elif rows:
        now = SystemClock().now()
        render.table(HEADERS, [_row(worker, env, now) for worker, env in rows])
    elif all(one["answer"] is not None for one in workers):
        render.say("there is no environment")
    return _say_silent(workers, quiet=quiet)


def _told(worker: Mapping[str, Any]) -> dict[str, Any]:
    answer = worker["answer"] or {}
    return {
        **{key: worker[key] for key in ("id", "name", "state", "why")},
        "environments": answer.get("environments"),
    }


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


def _say_silent(workers: list[Mapping[str, Any]], *, quiet: bool = False) -> int:
    """1 where some have not answered."""
    silent = [one for one in workers if one["answer"] is None]
    if not quiet:
        for one in silent:
            render.say(render.plain(f"{one['name']}: no answer: {one['why']}"))
    return int(bool(silent))


def _remove(
    keys: tuple[str, ...], unused: bool, worker: str | None, as_json: bool, quiet: bool
) -> int:
    body: dict[str, Any] = {"keys": list(keys)} if keys else {"unused": unused}
    if worker is not None:
        body["workers"] = [worker]
    done = connect().call("POST", "/v1/environments/remove", body, park=PARK * 1.5)["workers"]
    if as_json:
        render.json_document({"workers": done})
    elif not quiet:
        for name, one in _of_all(done, "removed"):
            render.say(f"removed {one['key'][:KEY]} of {name}, {render.size(one['bytes'])}")
    kept = list(_of_all(done, "kept"))
    lacking = [
        key
        for key in keys
        if all(key in (one["answer"] or {"unknown": [key]})["unknown"] for one in done)
    ]
    silent = _say_silent(done, quiet=quiet)
    if kept and keys:
        name, one = kept[0]
        raise _in_use(name, one)
    if lacking and not silent:
        raise NotFoundError(
            "environment-not-found",
            f"no environment has the key {lacking[0]!r}",
            hint="gpulayer env ls",
        )
    if not (quiet or as_json):
        for name, one in kept:
            users = f": {', '.join(one['used_by'])}" if one["used_by"] else ""
            render.say(f"kept {one['key'][:KEY]} of {name}, {one['why']}{users}")
        if unused and not silent and not kept and not any(_of_all(done, "removed")):
            render.say("there is no environment")
    return silent


def _of_all(done: list[Mapping[str, Any]], what: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for worker in done:
        for one in (worker["answer"] or {}).get(what, ()):
            yield worker["name"], one


def _in_use(worker: str, kept: Mapping[str, Any]) -> RefusedError:
    users = kept["used_by"]
    why = f"{users[0]} uses it" if users else str(kept["why"])
    return RefusedError(
        "environment-in-use",
        f"the environment {kept['key'][:KEY]} of {worker} stays",
        why=why,
        hint=(f"gpulayer wait {users[0]}", f"gpulayer cancel {users[0]}")
        if users
        else "gpulayer env ls",
    )
