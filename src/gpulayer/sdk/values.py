"""What travels with a call and comes back from it, so that `f.remote(x) == f(x)` with equal types,
or a refusal where it was written. The format is that of `runtime.values`.

Arguments are written before the job is submitted. What is large goes to artifacts, which the job
names as inputs; those of a result are among its outputs. Either way bytes are streamed between a
file and the plane, and compared with their digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, BinaryIO

from gpulayer.api.transfers import Client
from gpulayer.contracts.limits import JSON_DEPTH
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import JobFailedError, UsageError
from gpulayer.runtime import values
from gpulayer.sdk.fetching import copy
from gpulayer.sdk.sending import FileParcel, send_lacking

INLINE_BYTES = 16 << 10
"""An argument up to here stands in the job's spec, unless the others leave no room for it."""

SPEC_BYTES = 128 << 10
"""Arguments of one call in its spec, together; half of what a spec may have."""

WAITING_BYTES = 256 << 20
"""Artifacts that may wait on this disk before they are sent."""

Wire = Callable[[], Client]
"""The calling thread's way to the plane."""


class Arguments:
    """Writes the arguments of many calls. A context manager: its files are gone after it. What two
    calls share is written once, as long as both are written in one context."""

    def __init__(self, wire: Wire, *, waiting_bytes: int = WAITING_BYTES) -> None:
        self._wire = wire
        self._waiting_bytes = waiting_bytes
        self._folder = ""
        self._calls = 0
        self._waiting: list[FileParcel] = []
        self._known: dict[int, tuple[object, str]] = {}
        """By identity, with the object so that nothing else gets it: its digest."""

    def __enter__(self) -> Arguments:
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def write(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any], list[dict[str, Any]]]:
        """The arguments as a spec has them, and the inputs that they need. Raises UsageError
        `value-not-portable` with the place of the first part that would not come back."""
        sink = _Sink(self)
        named = [(f"args[{number}]", value) for number, value in enumerate(args)]
        named += [(f"kwargs[{name!r}]", value) for name, value in kwargs.items()]
        left = SPEC_BYTES
        wires = []
        for place, value in named:
            written = written_value(place, value, sink, min(INLINE_BYTES, left))
            left -= len(written.text)
            wires.append(written.wire)
        inputs = self.collected(sink)
        return wires[: len(args)], dict(zip(kwargs, wires[len(args) :], strict=True)), inputs

    def flush(self) -> None:
        """Send what waits."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            send_lacking(self._wire(), waiting)
        for parcel in waiting:
            os.unlink(parcel.path)

    def folder_of_call(self) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="gpulayer-values-")
        self._calls += 1
        return os.path.join(self._folder, str(self._calls))

    def known(self, key: object) -> str | None:
        found = self._known.get(id(key))
        return None if found is None else found[1]

    def collected(self, sink: Files) -> list[dict[str, Any]]:
        for name in sink.names:
            if name in sink.digests:
                continue
            path = os.path.join(sink.folder, name)
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                size = file.tell()
            sink.digests[name] = digest
            self._waiting.append(FileParcel(path, digest, size))
        for key, name in sink.kept():
            self._known[id(key)] = key, sink.digests[name]
        if sum(parcel.size for parcel in self._waiting) > self._waiting_bytes:
            self.flush()
        return [
            {"artifact": ADDRESS + sink.digests[name], "path": f"{values.FOLDER}/{name}"}
            for name in sink.names
        ]


class Files(values.FolderSink):
    """Files that go to artifacts."""

    def __init__(self, folder: str = "") -> None:
        super().__init__(folder)
        self.digests: dict[str, str] = {}


class _Sink(Files):
    """The files of one call."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self._arguments = arguments

    def store(self, ending: str, write: Callable[[BinaryIO], object], key: object = None) -> str:
        self._begin()
        digest = None if key is None else self._arguments.known(key)
        if digest is None:
            return super().store(ending, write, key)
        name = self.take_name(ending)
        self.digests[name] = digest
        return name

    def pack(self, write: Callable[[BinaryIO], object]) -> dict[str, Any]:
        self._begin()
        return super().pack(write)

    def _begin(self) -> None:
        if not self.folder:
            self.folder = self._arguments.folder_of_call()


def with_written(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The workload of a program's own making, its arguments as a spec has them. Those that are in
    that form already stay."""
    said = {name: workload[name] for name in ("args", "kwargs") if workload.get(name)}
    if not said:
        return workload
    args, kwargs = said.get("args", ()), said.get("kwargs", {})
    new_args, new_kwargs = written_inline(args, kwargs)
    made = {**workload}
    if args:
        made["args"] = [
            old if values.is_tagged(old) else new for old, new in zip(args, new_args, strict=True)
        ]
    if kwargs:
        made["kwargs"] = {
            name: old if values.is_tagged(old) else new_kwargs[name] for name, old in kwargs.items()
        }
    return made


def written_inline(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that stand in the spec, whatever their size. Raises UsageError."""
    sink = values.Sink()
    return (
        [written_value(f"args[{at}]", value, sink).wire for at, value in enumerate(args)],
        {
            name: written_value(f"kwargs[{name!r}]", value, sink).wire
            for name, value in kwargs.items()
        },
    )


def written_value(
    place: str, value: Any, sink: values.Sink, inline: int = SPEC_BYTES * 2
) -> values.Written:
    """A value as it travels. Raises UsageError that begins with `place`."""
    try:
        return values.encode(value, _classes(), sink, inline=inline, depth=JSON_DEPTH - 8)
    except values.NotPortable as error:
        raise UsageError(
            "too-large" if isinstance(error, values.TooLarge) else "value-not-portable",
            error.at(place),
            why=f"it would not come back the same: {error.mend}",
            hint="gpulayer help value-not-portable",
        ) from None


# --- results --------------------------------------------------------------------------------


class _Outputs(values.Source):
    """The files of a result, each fetched when it is read."""

    def __init__(self, job: Mapping[str, Any], wire: Wire) -> None:
        self._digests = {one["path"]: one["digest"] for one in job.get("outputs") or ()}
        self._wire = wire

    def open(self, name: str) -> BinaryIO:
        digest = self._digests.get(f"{values.FOLDER}/{name}")
        if digest is None:
            raise values.Unreadable(f"its file {name} is not among the outputs of the job")
        file = tempfile.TemporaryFile(prefix="gpulayer-value-")  # noqa: SIM115 - the reader's
        try:
            copy(self._wire(), digest, file)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file


def result_of(job: Mapping[str, Any], wire: Wire) -> Any:
    """What the function of an ended job returned, or 0 for a command. Raises JobFailedError where
    it cannot be read here, and what fetching its files raises."""
    value = (job.get("result") or {}).get("value", 0)
    if not values.is_tagged(value):
        return value
    try:
        return values.decode(value, _classes(), _Outputs(job, wire))
    except values.Unreadable as error:
        lacks = error.lacks.partition(".")[0]
        raise JobFailedError(
            "value-not-portable",
            f"the result of {job['id']} cannot be read here: {error}",
            why=f"{lacks} is needed for it" if lacks else "the job itself has succeeded",
            hint=f"gpulayer result {job['id']}",
            job_id=job["id"],
        ) from None


def json_of(job: Mapping[str, Any], wire: Wire) -> Any:
    """What the function of an ended job returned as JSON in the form in which values travel, whole:
    a large one is fetched. Arrays in it stay files. None for a command."""
    value: Any = (job.get("result") or {}).get("value")
    if not values.is_tagged(value) or "file" not in value:
        return value
    with _Outputs(job, wire).open(value["file"]) as file:
        tagged = json.load(file)
    return {values.KEY: value[values.KEY], "value": tagged} if _has_tags(tagged) else tagged


def _has_tags(value: Any) -> bool:
    """Whether plain JSON does not say all of it."""
    left = [value]
    while left:
        one = left.pop()
        if type(one) is dict:
            if any(key.startswith("$") for key in one):
                return True
            left += one.values()
        elif type(one) is list:
            left += one
    return False


def _classes() -> values.Classes:
    """The script that was started is `__main__` here, and has its own name where its jobs run;
    see `entrypoint`."""
    main: ModuleType | None = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.origin:
        return values.Classes(spec.name, main)
    if file is None or "ipykernel" in sys.modules:
        return values.Classes()
    stem = os.path.splitext(os.path.basename(file))[0]
    return values.Classes(stem if stem.isidentifier() else "gpulayer_script", main)
