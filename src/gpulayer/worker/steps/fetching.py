"""Inputs that this worker fetches from an address: a web server, a bucket.

The plane never does: it would reach what its users do not. Here a job could fetch the same by
itself. What comes is named by its digest, so an address that was changed, or that answers something
else to us, is a failure and never another input. Keys for a bucket are this machine's own, or for a
job here its terminal's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from gpulayer.artifacts import s3, web
from gpulayer.artifacts.digesting import Checked
from gpulayer.contracts import limits
from gpulayer.contracts.durations import bytes_text
from gpulayer.contracts.input_urls import shown
from gpulayer.errors import GPULayerError, NotFoundError, PreparationError, RefusedError
from gpulayer.worker.artifact_cache import Fetch
from gpulayer.worker.environments.building import TakenBackError
from gpulayer.worker.steps.plan import TaskPlan

PHASE = "staging"
SECONDS = 6 * 3_600.0
"""How long one may take."""

Look = Callable[[], None]


def is_needed(spec: Mapping[str, Any]) -> bool:
    return any(item.get("url") for item in spec.get("inputs") or ())


def stage(
    task: TaskPlan, item: Mapping[str, Any], digest: str, use: Callable[[Fetch], None]
) -> None:
    """Have `use` take it, fetched if it is not here. Raises `fetch-failed`, with all that is to
    know."""
    url = str(item["url"])
    try:
        use(_fetch(task, url))
    except web.WebError as error:
        raise _failed(task, item, error.why) from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _failed(task, item, "the disk of the worker is full") from error
    except TakenBackError:
        raise
    except RefusedError as error:
        if error.code != "digest-mismatch":
            raise
        why = f"it is another file than sha256 {digest[:12]}...: {error.why}"
        raise _failed(task, item, why) from error
    except GPULayerError as error:
        raise _failed(task, item, f"{error.message} {error.why}".strip()) from error


def _fetch(task: TaskPlan, url: str) -> Fetch:
    def fetch(digest: str, path: str) -> str | None:
        task.watch.enters(PHASE)
        look = _look(task)
        look()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "r+b") as file:
            file.seek(0, os.SEEK_END)
            checked = Checked(file)
            sink = cast("BinaryIO", checked)
            environ = _environ(task)
            if url.startswith(s3.SCHEME):
                _from_bucket(url, sink, environ, look)
            else:
                web.download(url, sink, most=limits.FETCHED_BYTES, look=look, environ=environ)
            return checked.digest()

    return fetch


def _look(task: TaskPlan) -> Look:
    began = task.clock.monotonic()

    def look() -> None:
        if not task.watch.is_wanted():
            raise TakenBackError
        if task.clock.monotonic() - began > SECONDS:
            raise web.WebError(f"it was not there within {SECONDS / 3600:.0f} h", 408)

    return look


def _from_bucket(url: str, sink: BinaryIO, environ: Mapping[str, str], look: Look) -> None:
    parts = urlsplit(url)
    bucket = s3.Bucket(s3.parse(f"{s3.SCHEME}{parts.netloc}"), environ)
    from gpulayer.artifacts.objects import Objects  # once it is known that obstore is here

    def missing() -> GPULayerError:
        return NotFoundError("file-not-found", "The bucket has no such object.")

    sink.seek(0)
    sink.truncate()
    for chunk in Objects(bucket).read(parts.path.lstrip("/"), missing):
        look()
        sink.write(chunk)
        if sink.tell() > limits.FETCHED_BYTES:
            raise web.WebError(f"it has more than {bytes_text(limits.FETCHED_BYTES)}", 413)


def _environ(task: TaskPlan) -> Mapping[str, str]:
    envelope = task.assignment.envelope_id
    if envelope is None:
        return task.environ
    found = task.lookup(envelope, (*s3.VARIABLES, *web.WAY))
    return {name: value for name, value in found.items() if value is not None}


def _failed(task: TaskPlan, item: Mapping[str, Any], why: str) -> PreparationError:
    url = shown(str(item["url"]))
    is_web = url.startswith("https://")
    return PreparationError(
        "fetch-failed",
        f"the input {item['path']} could not be fetched on {task.worker} from {url}",
        where=url,
        why=why,
        hint=f"curl -fsSL {url} | sha256sum" if is_web else "gpulayer help fetch-failed",
        job_id=task.assignment.job_id,
    )
