"""What `--input SRC[:PATH]` names, and what of it travels.

    FILE, FOLDER                             sent along; of a folder its files, as a bundle
    artifact://sha256/DIGEST:PATH            stored with `put`
    JOB:FILE, JOB:FOLDER                     what another job left; nothing travels
    https://HOST/FILE#sha256=DIGEST          fetched by the worker; nothing travels
    s3://BUCKET/KEY#sha256=DIGEST            the same, with the worker's keys

A file here comes before a job that has its name.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpulayer.artifacts.bundle import build_source_bundle
from gpulayer.artifacts.seen import Seen
from gpulayer.contracts import limits
from gpulayer.contracts.input_urls import SCHEMES, read_said, url_fault
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import NotFoundError, RefusedError, UsageError
from gpulayer.sdk.sending import FileParcel, FolderParcel

Job = Callable[[str], Mapping[str, Any]]
"""The job of a selector, as the plane tells it. Raises `job-not-found`."""


class Given:
    """The inputs of one job, one after the other."""

    def __init__(
        self, folder: str, without: Sequence[str], seen: Seen, job: Job | None = None
    ) -> None:
        self._folder = folder
        self._without = without
        self._seen = seen
        self._job = job
        self.refs: list[dict[str, Any]] = []
        """What the job says of them."""
        self.parcels: list[FileParcel | FolderParcel] = []
        """What travels."""

    def add(self, text: str) -> None:
        """Raises UsageError, NotFoundError, RefusedError: what `build_source_bundle` does, and
        `job-not-finished`."""
        if text.startswith(ADDRESS):
            self.refs.append(_artifact(text))
        elif text.startswith(SCHEMES):
            self.refs.append(_address(text))
        elif "://" in text and not os.path.exists(os.path.join(self._folder, text)):
            raise UsageError(
                "usage",
                f"--input {text}: there are https:// and s3:// addresses, files, and JOB:FILE",
                hint="gpulayer run --help-all",
            )
        else:
            self._add_path(text)

    def _add_path(self, text: str) -> None:
        source, target = _split(text, self._folder)
        path = os.path.join(self._folder, source)
        target = target or os.path.basename(os.path.normpath(path))
        if os.path.isdir(path):
            self._add_folder(os.path.realpath(path), target)
        elif os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
            self.refs.append({"artifact": ADDRESS + digest, "path": target})
            self.parcels.append(FileParcel(path, digest, size))
        elif ":" in text and self._job is not None:
            self._add_outputs(*text.split(":", 1))
        else:
            raise NotFoundError("file-not-found", f"--input: {source} does not exist", hint="ls")

    def _add_folder(self, path: str, target: str) -> None:
        before = self._seen.last(os.path.join(path, ""))
        bundle = build_source_bundle(path, without=self._without, seen=self._seen, is_data=True)
        self.refs.append({"artifact": ADDRESS + bundle.digest, "path": target, "unpack": True})
        self.parcels.append(FolderParcel(bundle, f"input: {path}", before))

    def _add_outputs(self, selector: str, rest: str) -> None:
        assert self._job is not None
        try:
            job = self._job(selector)
        except NotFoundError as error:
            if error.code != "job-not-found":
                raise
            raise NotFoundError(
                "file-not-found",
                f"--input {selector}:{rest}: {selector} does not exist here, and no job is called "
                "that",
                hint=("ls", "gpulayer ps -a"),
            ) from None
        for name, target in ((rest, ""), rest.rpartition(":")[::2]):
            if found := _outputs(job, name.strip("/"), target):
                self.refs += found
                return
        raise _left_no(job, rest)


def _artifact(text: str) -> dict[str, Any]:
    address, _, target = text.rpartition(":")
    if not address.startswith(ADDRESS):
        raise UsageError(
            "usage",
            f"--input {text}: an artifact needs a name for the job",
            hint=f"--input {text}:data",
        )
    return {"artifact": address, "path": target}


def _address(text: str) -> dict[str, Any]:
    """Of a web server or a bucket. What it must be is said along: an address may say something
    else tomorrow, and something else to another machine."""
    said = read_said(text)
    if said is None:
        url = text.partition("#")[0]
        is_web = url.startswith("https://")
        raise UsageError(
            "usage",
            f"--input {url}: an address needs the SHA-256 of what is there, as #sha256=DIGEST",
            why="it may say something else tomorrow, and something else to another machine",
            hint=f"curl -fsSL {shlex.quote(url)} | sha256sum"
            if is_web
            else f"aws s3 cp {shlex.quote(url)} - | sha256sum",
        )
    wrong = url_fault(said.url)
    if wrong is not None:
        raise UsageError(
            "usage",
            f"--input: the address {wrong[0]}",
            why=wrong[1],
            hint="gpulayer run --help-all",
        )
    return {"artifact": ADDRESS + said.digest, "path": said.path, "url": said.url}


def _outputs(job: Mapping[str, Any], name: str, target: str) -> list[dict[str, Any]]:
    """The file of that name, or all files of the folder of that name."""
    target = target or name.rpartition("/")[2]
    found = []
    for output in job.get("outputs") or ():
        path, address = str(output["path"]), ADDRESS + str(output["digest"])
        if path == name:
            return [{"artifact": address, "path": target}]
        if path.startswith(f"{name}/"):
            found.append({"artifact": address, "path": target + path[len(name) :]})
    if len(found) > limits.INPUTS:
        raise RefusedError(
            "too-large",
            f"{job['id']}:{name} has {len(found)} files; a job has up to {limits.INPUTS} inputs",
        )
    return found


def _left_no(job: Mapping[str, Any], name: str) -> Exception:
    if job["finished_at"] is None:
        return RefusedError(
            "job-not-finished",
            f"{job['id']} has not ended yet, and what it leaves comes at its end",
            hint=f"gpulayer wait {job['id']}",
            job_id=job["id"],
        )
    outputs = [str(output["path"]) for output in job.get("outputs") or ()]
    shown = ", ".join(outputs[:5]) + (", ..." if len(outputs) > 5 else "")
    return NotFoundError(
        "artifact-not-found",
        f"{job['id']} left no file '{name}'",
        why=f"it left {shown}" if shown else "it left no files",
        hint=f"gpulayer status {job['id']}",
        job_id=job["id"],
    )


def _split(text: str, folder: str) -> tuple[str, str]:
    """A file's own name may hold a colon."""
    if os.path.exists(os.path.join(folder, text)) or ":" not in text:
        return text, ""
    source, _, target = text.rpartition(":")
    return source, target
