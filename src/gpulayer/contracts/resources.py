"""What a job needs of one machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import InitErrorDetails

from gpulayer.contracts import limits
from gpulayer.contracts.base import Contract, fault, fill, refusal, refuse_all
from gpulayer.contracts.durations import normal_model
from gpulayer.contracts.profiles import PROFILES
from gpulayer.contracts.texts import Specifier, check_choice

Accelerator = Literal["cpu", "cuda", "mps", "rocm", "gpu"]

_CAPABILITY = re.compile(r"\d{1,2}\.\d", re.ASCII)
_FRAMEWORK = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_SYSTEMS = {"linux": "linux", "macos": "macos", "windows": "windows", "darwin": "macos"}
_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64"}
_ACCELERATOR = "resources.accelerator"
_PROFILE = "resources.profile"


def _check_profile(value: str) -> str:
    if value not in PROFILES:
        raise refusal("is an unknown profile", f"use one of {', '.join(PROFILES)}")
    return value


def _check_model(value: str) -> str:
    model = normal_model(value)
    if model is None:
        raise refusal(
            "must be a GPU model's name", 'write it as `gpulayer gpus` lists it, such as "a100"'
        )
    return model


def _check_system(value: str) -> str:
    known = _SYSTEMS.get(value)
    if known is None:
        raise refusal("must be linux, macos or windows", 'write "linux"')
    return known


def _check_architecture(value: str) -> str:
    return check_choice(_ARCHITECTURES.get(value, value))


def _check_capability(value: str) -> str:
    if _CAPABILITY.fullmatch(value) is None:
        raise refusal("must be a compute capability: major.minor", 'write it as "8.0"')
    return value


def _check_frameworks(value: dict[str, str]) -> dict[str, str]:
    refuse_all(
        fault((name,), None, "is not a framework's name", 'write it as "torch" or "torch.cuda"')
        for name in value
        if len(name) > limits.CHOICE_CHARACTERS or _FRAMEWORK.fullmatch(name) is None
    )
    return value


_Gigabytes = Annotated[float, Field(gt=0, le=limits.GIGABYTES)]


class ResourceRequest(Contract):
    """What one node of the job needs. Sizes are in GB of 10**9 bytes; cores, memory and disk
    place the job, they are not enforced limits."""

    profile: Annotated[str, AfterValidator(_check_profile)] | None = Field(
        None,
        description="Runtime profile; fills in accelerator and frameworks.",
        json_schema_extra={"enum": [*PROFILES, None]},
    )
    accelerator: Accelerator = Field(
        "cpu",
        description="cpu, cuda, mps, rocm (never scheduled yet), or gpu: any supported GPU.",
    )
    gpu_count: int = Field(
        0,
        ge=0,
        le=limits.GPUS_PER_NODE,
        description="Devices per node. Default: 1 with a GPU accelerator, else 0.",
    )
    gpu_memory_gb: _Gigabytes | None = Field(
        None, description="Least memory of each device; dedicated memory, unless a kind is given."
    )
    gpu_memory_kind: Literal["dedicated", "unified"] | None = Field(
        None, description="Whether the device has memory of its own or shares the machine's."
    )
    gpu_models: list[Annotated[str, AfterValidator(_check_model)]] = Field(
        default_factory=list,
        max_length=limits.CHOICES,
        description="GPU models, any of them will do, such as a100 or rtx4090.",
    )
    min_cuda_compute_capability: Annotated[str, AfterValidator(_check_capability)] | None = Field(
        None, description='Least CUDA compute capability, such as "8.0".'
    )
    cpu_cores: float = Field(1, gt=0, le=limits.CPU_CORES, description="CPU cores.")
    memory_gb: _Gigabytes | None = Field(None, description="Memory of the machine.")
    disk_gb: _Gigabytes | None = Field(None, description="Free disk where the job works.")
    os: list[Annotated[str, AfterValidator(_check_system)]] = Field(
        default_factory=list,
        max_length=limits.CHOICES,
        description="Operating systems, any of linux, macos, windows. Empty: any.",
    )
    cpu_arch: list[Annotated[str, AfterValidator(_check_architecture)]] = Field(
        default_factory=list,
        max_length=limits.CHOICES,
        description="CPU architectures, such as x86_64 or arm64. Empty: any.",
    )
    frameworks: Annotated[dict[str, Specifier], AfterValidator(_check_frameworks)] = Field(
        default_factory=dict,
        max_length=limits.FRAMEWORKS,
        description='PEP 440 specifiers by framework, such as {"torch": ">=2.2"}; "": any version.',
    )
    python: Specifier | None = Field(
        None, description='PEP 440 specifier of the Python that runs the job, such as ">=3.10".'
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        profile = PROFILES.get(self.profile or "")
        given = self.model_fields_set
        accelerator = self.accelerator
        if profile is not None:
            if "accelerator" not in given:
                accelerator = profile.accelerator  # type: ignore[assignment]
            fill(
                self,
                accelerator=accelerator,
                frameworks={**profile.frameworks, **self.frameworks},
            )
        refuse_all(_contradictions(self))
        if accelerator != "cpu" and "gpu_count" not in given:
            fill(self, gpu_count=1)
        return self


def _contradictions(asked: ResourceRequest) -> Iterator[InitErrorDetails]:
    on = asked.accelerator
    profile = PROFILES.get(asked.profile or "")
    if profile is not None and profile.accelerator != on:
        yield fault(
            ("accelerator",),
            None,
            f"must match the profile: {asked.profile} needs {profile.accelerator}, not {on}",
            f'leave accelerator out, or write "{profile.accelerator}"',
            about=(_PROFILE,),
        )
        return
    about = (_ACCELERATOR, _PROFILE)
    if on == "cpu":
        mend = 'leave it out, or add "accelerator": "gpu"'
        if asked.gpu_count:
            yield fault(
                ("gpu_count",),
                asked.gpu_count,
                f"is {asked.gpu_count}, but the accelerator is cpu",
                'write 0, or add "accelerator": "gpu"',
                about=about,
            )
        for name in (
            "gpu_memory_gb", "gpu_memory_kind", "gpu_models", "min_cuda_compute_capability"
        ):  # fmt: skip
            value = getattr(asked, name)
            if value:
                yield fault((name,), value, "is set, but the accelerator is cpu", mend, about=about)
    else:
        if asked.gpu_count == 0 and "gpu_count" in asked.model_fields_set:
            yield fault(
                ("gpu_count",),
                0,
                f"is 0, but the accelerator is {on}",
                "leave it out for one device, or leave accelerator out for none",
                about=about,
            )
        if on in ("mps", "rocm") and asked.min_cuda_compute_capability is not None:
            yield fault(
                ("min_cuda_compute_capability",),
                asked.min_cuda_compute_capability,
                f"needs CUDA, but the accelerator is {on}",
                'leave it out, or write "accelerator": "cuda"',
                about=about,
            )
