"""`JobSpec`: one job, described without saying where it runs.

The parts are in `workloads`, `resources`, `placement`, `supplies`, `reruns` and `arrays`; here they
become one spec, with the rules that look at several parts. A plane reads specs through
`validate_spec`, and keeps and sends what `spec_to_json` gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import InitErrorDetails, ValidationError

from gpulayer.contracts import limits
from gpulayer.contracts.arrays import Array
from gpulayer.contracts.base import API_VERSION, Contract, fault, fill, refusal, refuse_all
from gpulayer.contracts.data_sets import variable
from gpulayer.contracts.environ_names import name_fault
from gpulayer.contracts.placement import Labels, PlacementPolicy
from gpulayer.contracts.problems import problems_in, spec_error, too_large
from gpulayer.contracts.reruns import Checkpoint, Resume, RetryPolicy
from gpulayer.contracts.resources import ResourceRequest
from gpulayer.contracts.supplies import Environment, InputRef, SecretRef
from gpulayer.contracts.texts import Artifact, Choice, Image, Name, SafePath, word_fault
from gpulayer.contracts.workloads import DistributedJob, Workload, default_backend

_KIND = ("workload.kind",)
_COMPACT = json.JSONEncoder(
    separators=(",", ":"), default=lambda part: part.model_dump(exclude_unset=True)
)


def validate_spec(data: Mapping[str, Any]) -> JobSpec:
    """The spec, or a `SpecError` that lists everything that is wrong with it."""
    try:
        spec = JobSpec.model_validate(data)
    except ValidationError:
        raise spec_error([problem for _, problem in problems_in(JobSpec, data)]) from None
    size = len(_COMPACT.encode(data))
    if size > limits.SPEC_BYTES:
        raise spec_error([too_large(size)])
    return spec


def spec_to_json(spec: JobSpec) -> dict[str, Any]:
    """Only the fields that were set, as plain JSON: what clients send and the store keeps."""
    data = spec.model_dump(exclude_unset=True)
    data["workload"]["kind"] = spec.workload.kind
    return data


def _check_env(value: dict[str, str]) -> dict[str, str]:
    refuse_all(_env_faults(value))
    size = sum(_bytes(name) + _bytes(text) + 2 for name, text in value.items())
    if size > limits.ENV_BYTES:
        raise refusal(
            f"has {size} bytes; up to {limits.ENV_BYTES} are allowed",
            "put large values into a file and stage it as an input",
        )
    return value


def _env_faults(value: dict[str, str]) -> Iterator[InitErrorDetails]:
    for name, text in value.items():
        wrong = name_fault(name)
        if wrong is not None:
            yield fault((name,), None, *wrong)
        wrong = word_fault(text)
        if wrong is not None:
            yield fault((name,), None, f"has a value that {wrong[0]}", wrong[1])


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


class After(Contract):
    """A job to wait for."""

    job: Choice = Field(description="Its id or name.")
    when: Literal["ok", "any"] = Field("ok", description="ok: it must succeed; any: it must end.")


class JobSpec(Contract):
    """One logical submission."""

    api_version: Literal["gpulayer.dev/v1alpha1"] = Field(
        API_VERSION, description="Version of this contract."
    )
    name: Name = Field("job", description="Letters, digits, _ . -; up to 63 characters.")
    workload: Workload
    resources: ResourceRequest = Field(
        default_factory=ResourceRequest, description="What each node needs. Default: CPU, 1 core."
    )
    placement: PlacementPolicy = Field(
        default_factory=PlacementPolicy, description="Where it may run. Default: here."
    )
    env: Annotated[dict[str, str], AfterValidator(_check_env)] = Field(
        default_factory=dict,
        max_length=limits.ENV_NAMES,
        description="Environment variables; not for secrets. GPULAYER_* and the names of launchers "
        "are reserved.",
    )
    secrets: list[SecretRef] = Field(
        default_factory=list,
        max_length=limits.SECRETS,
        description="Secrets that the worker looks up where it runs.",
    )
    inputs: list[InputRef] = Field(
        default_factory=list,
        max_length=limits.INPUTS,
        description="Artifacts that are staged before the job starts.",
    )
    stdin: Artifact | None = Field(
        None, description="What it reads on standard input, by digest; from the start at each try."
    )
    timeout_seconds: Annotated[float, Field(gt=0, le=limits.SECONDS)] | None = Field(
        None, description="Time limit of each attempt, counted from the workload's first word."
    )
    retry: RetryPolicy = Field(
        default_factory=RetryPolicy,
        description="When it is given out again; not for distributed jobs.",
    )
    labels: Labels = Field(default_factory=dict, description="Free-form.")
    priority: int = Field(
        0, ge=-limits.PRIORITY, le=limits.PRIORITY, description="Higher goes first."
    )
    after: list[After] = Field(
        default_factory=list, max_length=limits.CHOICES, description="Jobs to wait for."
    )
    outputs: list[SafePath] = Field(
        default_factory=list,
        max_length=limits.OUTPUTS,
        description="Files to bring home besides the output folder, as patterns relative to the "
        "working folder.",
    )
    environment: Environment | None = Field(None, description="Packages that it needs.")
    image: Image | None = Field(
        None, description="Container image to run in; pinned to a digest when submitted."
    )
    array: Array | None = Field(None, description="Many elements of this job.")
    resume: Resume | None = Field(None, description="Restarts of a distributed job.")
    checkpoint: Checkpoint | None = Field(None, description="A folder kept between attempts.")
    data: list[Name] = Field(
        default_factory=list,
        max_length=limits.CHOICES,
        description="Data sets that the worker must have.",
    )
    cache: bool = Field(False, description="Give the recorded result of the same call, if any.")
    reuse: bool | None = Field(
        None, description="Functions: whether one process serves many calls."
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        work = self.workload
        faults = [*_secret_faults(self), *_input_faults(self), *_data_faults(self)]
        faults += [*_kind_faults(self), *_image_faults(self), *_array_faults(self)]
        if isinstance(work, DistributedJob):
            faults += _distributed_faults(self, work)
        refuse_all(faults)
        if isinstance(work, DistributedJob) and "comm_backend" not in work.model_fields_set:
            work = work.model_copy()
            fill(work, comm_backend=default_backend(self.resources.accelerator))
            fill(self, workload=work)
        return self


def _secret_faults(spec: JobSpec) -> Iterator[InitErrorDetails]:
    seen: set[str] = set()
    for index, secret in enumerate(spec.secrets):
        at = ("secrets", index, "name")
        if secret.name in spec.env:
            yield fault(
                at,
                None,
                f"is {secret.name}, which env sets too",
                f"take {secret.name} out of env, or rename the secret",
                about=(f"env.{secret.name}",),
            )
        if secret.name in seen:
            yield fault(at, None, f"is {secret.name}, as an earlier one", "rename it")
        seen.add(secret.name)


def _input_faults(spec: JobSpec) -> Iterator[InitErrorDetails]:
    """Two files cannot be at one path, nor a file at a folder that another one needs."""
    files: set[str] = set()
    folders: set[str] = set()
    for index, item in enumerate(spec.inputs):
        parts = item.path.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if item.path in files or item.path in folders or above & files:
            yield fault(
                ("inputs", index, "path"),
                item.path,
                "is where an earlier input is staged",
                "give each input a path of its own",
            )
        files.add(item.path)
        folders |= above


def _data_faults(spec: JobSpec) -> Iterator[InitErrorDetails]:
    """Two cannot be in one variable."""
    seen: dict[str, str] = {}
    for index, name in enumerate(spec.data):
        if (earlier := seen.get(variable(name))) is not None:
            yield fault(
                ("data", index),
                None,
                f"is {name}, whose variable {variable(name)} {earlier} has already",
                "name each data set once",
            )
        seen[variable(name)] = name


def _kind_faults(spec: JobSpec) -> Iterator[InitErrorDetails]:
    kind = spec.workload.kind
    if spec.reuse and kind != "function":
        yield fault(
            ("reuse",), True, f"is for functions; this is a {kind}", "leave it out", about=_KIND
        )
    if spec.resume is not None and kind != "distributed":
        yield fault(
            ("resume",),
            None,
            f"is for distributed jobs; this is a {kind}",
            'use retry: {"max_attempts": 2}',
            about=_KIND,
        )


def _array_faults(spec: JobSpec) -> Iterator[InitErrorDetails]:
    """What an element is given becomes a word of its command, and a variable."""
    if spec.array is None or spec.workload.kind != "command":
        return
    items = spec.array.items if isinstance(spec.array.items, list) else ()
    given: list[tuple[tuple[str | int, ...], Any]] = []
    given += [(("items", at), value) for at, value in enumerate(items)]
    for name, values in (spec.array.matrix or {}).items():
        given += [(("matrix", name, at), value) for at, value in enumerate(values)]
    for place, value in given:
        if isinstance(value, str) and (wrong := word_fault(value)) is not None:
            yield fault(("array", *place), None, *wrong)


def _image_faults(spec: JobSpec) -> Iterator[InitErrorDetails]:
    """An image brings its own Pythons and packages."""
    if spec.image is None:
        return
    for name in ("requirements", "file"):
        if getattr(spec.environment, name, None):
            yield fault(
                ("environment", name),
                None,
                "is for a Python of the worker, and image brings its own",
                "install it into the image, or leave image out",
                about=("image",),
            )
    for name in ("python", "frameworks"):
        if name in spec.resources.model_fields_set:
            yield fault(
                ("resources", name),
                None,
                "is about the Pythons of workers, and image brings its own",
                "leave it out",
                about=("image",),
            )


def _distributed_faults(spec: JobSpec, work: DistributedJob) -> Iterator[InitErrorDetails]:
    on = spec.resources.accelerator
    if on == "mps":
        yield fault(
            ("resources", "accelerator"),
            None,
            "is mps, which supports independent jobs only",
            'write "cuda" or "cpu", or use a workload of kind command or function',
            about=(*_KIND, "resources.profile"),
        )
    elif work.comm_backend == "nccl" and on != "cuda":
        yield fault(
            ("workload", "comm_backend"),
            None,
            f"is nccl, which needs CUDA; the accelerator is {on}",
            'write "gloo", or add "accelerator": "cuda" to resources',
            about=("resources.accelerator", "resources.profile"),
        )
    mend = 'leave it out; to start the whole job again use "resume": {"max_restarts": 1}'
    if spec.retry.max_attempts > 1:
        yield fault(
            ("retry", "max_attempts"),
            spec.retry.max_attempts,
            f"is {spec.retry.max_attempts}, but distributed jobs are not retried",
            mend,
            about=_KIND,
        )
    if spec.retry.retry_on != RetryPolicy().retry_on:
        yield fault(
            ("retry", "retry_on"), None, "is set, but distributed jobs are not retried", mend,
            about=_KIND,
        )  # fmt: skip
