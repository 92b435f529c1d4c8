"""What to type after a job ended badly: commands that parse, the likeliest mend first."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.contracts.ids import LOCAL_WORKER
from gpulayer.contracts.requirement_files import ALLOW
from gpulayer.contracts.secret_names import is_name
from gpulayer.sdk.again import command_line
from gpulayer.sdk.describe import FUNCTION

_BUILTINS = frozenset(
    "alias bg bind builtin cd declare dirs disown eval exec export fc fg getopts hash history "
    "jobs let local logout popd pushd read readonly return set setopt shift shopt source "
    "suspend times trap type typeset ulimit umask unalias unset wait .".split()
)
"""Words that a shell obeys itself, so that no file of that name is found."""
_FLAG_OF_CHECK = {
    "worker": "on",
    "label": "on",
    "cpu_cores": "cpus",
    "memory": "memory",
    "disk": "disk",
    "data": "data",
    "python": "python",
    "accelerator": "accelerator",
}


def of_job(
    slug: str, job: Mapping[str, Any], reported: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Lines to paste. Where nothing mends it from here, the ones that show more."""
    lines = _OF_SLUG.get(slug, _look_and_retry)(job, reported or {})
    return tuple(line for line in lines if line)


def without_checks(spec: Mapping[str, Any], names: Sequence[str], verb: str = "run") -> str | None:
    """The same job without the wishes that those checks stand for; None where that is no line."""
    flags = {_FLAG_OF_CHECK.get(name, "gpus" if name.startswith("gpu") else "") for name in names}
    if not flags or "" in flags:
        return None
    if "gpus" in flags:
        flags |= {"gpu_memory", "accelerator"}
    return command_line(spec, verb, **dict.fromkeys(flags))


def allowing(worker_id: str, checks: Sequence[Mapping[str, Any]]) -> str | None:
    """What is typed on the machine of that worker, where all that it lacks are secrets."""
    names = [check["need"].removeprefix("secret ") for check in checks]
    if not all(check["name"] == "secret" for check in checks):
        return None
    if worker_id == LOCAL_WORKER or not all(map(is_name, names)):
        return "gpulayer help secrets"
    return shlex.join(["gpulayer", "join", *(f"--secret={name}" for name in names)])


def _look_and_retry(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    one = "" if job.get("index") is None else f" --index {job['index']}"
    return [f"gpulayer logs {job['id']}{one}", f"gpulayer retry {job['id']}"]


def _no_worker(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    return [
        f"gpulayer why {job['id']}",
        command_line(job["spec"], "submit"),
    ]


def _no_gpu(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    return [without_checks(job["spec"], ["gpu_count"]), "gpulayer gpus", "gpulayer doctor"]


def _python(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    return [without_checks(job["spec"], ["python"]), "gpulayer workers --json"]


def _secret(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    told = reported.get("hint") or ()
    mend = [told] if isinstance(told, str) else list(told)
    return [*mend, command_line(job["spec"]) or f"gpulayer retry {job['id']}"]


def _image(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    told = reported.get("hint") or ()
    mend = [told] if isinstance(told, str) else list(told)
    return [*mend, f"gpulayer retry {job['id']}"]


def _in_image(job: Mapping[str, Any]) -> list[str | None]:
    """What there is to run in it."""
    name = shlex.quote(str(job["spec"]["image"]))
    return [f"gpulayer run --image {name} -- ls /bin /usr/bin", f"gpulayer logs {job['id']}"]


def _not_found(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    if job["spec"].get("image"):
        return _in_image(job)
    words = list((job["spec"].get("workload") or {}).get("command") or [""])
    line = shlex.join(words)
    folder = (job.get("origin") or {}).get("cwd") or "."
    if FUNCTION.fullmatch(words[0]):
        return [f"gpulayer submit {line}"]
    if words[0] in _BUILTINS:
        return [f"gpulayer run -- sh -c {shlex.quote(line)}"]
    if len(words) == 1 and " " in words[0].strip():
        return [f"gpulayer run -- {words[0].strip()}"]
    if "/" not in words[0] and os.path.isfile(os.path.join(folder, words[0])):
        runs = [*(["python"] if words[0].endswith(".py") else []), f"./{words[0]}", *words[1:]]
        return [f"gpulayer run -- {shlex.join(runs)}"]
    near = _nearest_command(words[0])
    return [
        f"gpulayer run -- {shlex.join([near, *words[1:]])}" if near else None,
        f"gpulayer run -- bash -ic {shlex.quote(line)}",
    ]


def _nearest_command(word: str) -> str | None:
    from difflib import get_close_matches

    if len(word) < 3 or "/" in word:
        return None
    names: set[str] = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            names.update(name for name in os.listdir(folder) if name[:1] == word[:1])
        except OSError:
            continue
    return next(iter(get_close_matches(word, sorted(names), n=1, cutoff=0.75)), None)


def _not_executable(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    if job["spec"].get("image"):
        return _in_image(job)
    words = list((job["spec"].get("workload") or {}).get("command") or [""])
    runner = "python" if words[0].endswith(".py") else "sh"
    return [
        f"gpulayer run -- {shlex.join([runner, *words])}",
        f"chmod +x {shlex.quote(words[0])}",
    ]


def _killed(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    more = None
    if job["reason"] == "out_of_memory":
        had = float((job["spec"].get("resources") or {}).get("memory_gb") or 0)
        more = command_line(job["spec"], memory=f"{had * 2:g}") if had else None
    return [more, *_look_and_retry(job, reported)]


def _timeout(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    limit = float(job["spec"].get("timeout_seconds") or 3600)
    longer = command_line(job["spec"], timeout=f"{limit * 4:g}s")
    return [longer, f"gpulayer logs {job['id']}"]


def _lost(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    return [f"gpulayer retry {job['id']}", command_line(job["spec"], retries="2")]


def _folder(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    folder = (job.get("origin") or {}).get("cwd") or ""
    return [f"mkdir -p {shlex.quote(folder)}" if folder else None, f"gpulayer retry {job['id']}"]


def _module(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    message = str(reported.get("message") or "")
    missing = message.removeprefix("No module named ").strip("'\"").partition(".")[0]
    own = str((job["spec"].get("workload") or {}).get("entrypoint") or "").partition(":")[0]
    install = f"gpulayer run -- python -m pip install {shlex.quote(missing)}"
    is_foreign = reported.get("type") == "ModuleNotFoundError" and missing != own.partition(".")[0]
    return [install if is_foreign else None, *_look_and_retry(job, reported)]


def _environment(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    again = f"gpulayer retry {job['id']}"
    if (reported.get("details") or {}).get("about") != "address":
        return ["gpulayer help environment-failed", again]
    is_here = (job["spec"].get("placement") or {}).get("target", "local") == "local"
    mend = f"export {ALLOW}=any" if is_here else "gpulayer help requirements"
    return [mend, again]


def _full(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    """Of an environment, others that no job uses make room; on a server that is an operator's."""
    is_environment = str(reported.get("where") or "").endswith("phase environment")
    room = "gpulayer env rm --unused" if is_environment else "gpulayer gc"
    return [room, *_look_and_retry(job, reported)]


def _value(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    return ["gpulayer help result-not-json", f"gpulayer logs {job['id']}"]


def _cancelled(job: Mapping[str, Any], reported: Mapping[str, Any]) -> list[str | None]:
    return [f"gpulayer retry {job['id']}"]


_OF_SLUG = {
    "no-matching-worker": _no_worker,
    "no-gpu": _no_gpu,
    "python-mismatch": _python,
    "data-missing": _secret,
    "secret-missing": _secret,
    "secret-unsafe": _secret,
    "command-not-found": _not_found,
    "not-executable": _not_executable,
    "disk-full": _full,
    "environment-failed": _environment,
    "image-failed": _image,
    "killed": _killed,
    "timeout": _timeout,
    "worker-lost": _lost,
    "envelope-lost": _lost,
    "folder-gone": _folder,
    "function-not-importable": _module,
    "result-not-json": _value,
    "cancelled": _cancelled,
}
