"""The path of a job in the API. Pure."""

from __future__ import annotations

from typing import Any

from gpulayer.errors import NotFoundError


def job_path(selector: str, rest: str = "", **query: Any) -> str:
    """`/v1/jobs/SELECTOR/rest?query`, with everything quoted and empty values left out.

    Raises `job-not-found` for what can name no job and would be another path: nothing at all, as
    from a variable that is not set, and what has a slash.
    """
    if not selector or "/" in selector:
        why = "" if selector else "the name is empty; is a variable not set?"
        raise NotFoundError(
            "job-not-found", f"no job is called {selector!r}", why=why, hint="gpulayer ps -a"
        )
    text = "&".join(
        f"{key}={_quoted(str(value))}" for key, value in query.items() if value not in (None, "")
    )
    tail = f"/{rest}" if rest else ""
    return f"/v1/jobs/{_quoted(selector)}{tail}" + (f"?{text}" if text else "")


def _quoted(text: str) -> str:
    if text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return text  # as nearly all are; the way to quote costs 3 ms of a command's start
    from urllib.parse import quote

    return quote(text, safe="")
