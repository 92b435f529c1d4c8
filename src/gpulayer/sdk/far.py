"""Submitting to a plane elsewhere: no envelope, no terminal, and a copy of the folder at most.

The origin says for people where a job came from. Nothing of this machine is meant by it there:
the worker's own Python runs the job, in a workspace of its own.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.sdk.folder import working_folder
from gpulayer.sdk.origin import TEXT_CHARACTERS, user_name
from gpulayer.sdk.repository import commit_of


def far_origin(argv: Sequence[str] = ()) -> dict[str, Any]:
    """The origin of a job for another machine."""
    found: dict[str, Any] = {
        "cwd": working_folder(),
        "host": os.uname().nodename,
        "user": user_name(),
    }
    if code := commit_of(str(found["cwd"])):
        found["code"] = code
    if argv:
        found["argv_text"] = shlex.join(argv)[:TEXT_CHARACTERS]
    if parent := os.environ.get("GPULAYER_JOB_ID"):
        found["parent_job"] = parent
    return found


class FarSubmitter:
    """`sdk.client.Submitter` for a served plane. Holds nothing."""

    def origin(self, extra: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        return {**far_origin(), **extra}, ""

    def again(
        self, origin: Mapping[str, Any], *, exact: bool = False
    ) -> tuple[dict[str, Any], str]:
        kept = {key: origin[key] for key in ("function", "argv_text", "cwd") if key in origin}
        return {**far_origin(), **kept}, ""

    def confirm(self) -> None: ...

    def forget(self) -> None: ...

    def close(self) -> None: ...
