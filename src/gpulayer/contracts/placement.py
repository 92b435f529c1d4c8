"""Where a job may run, and what to do when nothing fits."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from gpulayer.contracts import limits
from gpulayer.contracts.base import Contract, fault, refusal, refuse_all
from gpulayer.contracts.texts import Choice, label_fault

Target = Literal["local", "remote", "cloud"]

_CURRENCY = re.compile(r"[A-Z]{3}")
_Choices = Annotated[list[Choice], Field(max_length=limits.CHOICES)]


def check_labels(value: dict[str, str]) -> dict[str, str]:
    refuse_all(
        fault((key,), None, f"has a {part} that {wrong[0]}", wrong[1])
        for key, text in value.items()
        for part, word in (("key", key), ("value", text))
        if (wrong := label_fault(word)) is not None
    )
    if "" in value:
        raise refusal("has an empty key", "give each label a key")
    return value


def _check_currency(value: str) -> str:
    if _CURRENCY.fullmatch(value) is None:
        raise refusal("must be a currency's three capital letters", 'write it as "USD"')
    return value


Labels = Annotated[dict[str, str], Field(max_length=limits.LABELS), AfterValidator(check_labels)]


class ProvisioningPolicy(Contract):
    """What may be started for the job when no machine is there."""

    provider: Choice | None = Field(None, description="Who starts it. Default: any configured one.")
    release: Literal["after_job", "keep"] = Field(
        "after_job", description="Whether the machine goes when the job has ended."
    )
    provisioning_timeout_seconds: float = Field(
        600, gt=0, le=limits.SECONDS, description="How long a machine may take to come up."
    )


class PlacementPolicy(Contract):
    """Which machines may run the job, and how to choose among them."""

    target: Target = Field(
        "local",
        description="local: the plane's own machine; remote: joined over the network; cloud.",
    )
    fallback_targets: list[Target] = Field(
        default_factory=list, max_length=3, description="Targets to try after it, in order."
    )
    worker_ids: _Choices = Field(default_factory=list, description="Only these workers.")
    worker_labels: Labels = Field(
        default_factory=dict, description="Only workers that have all of these labels."
    )
    providers: _Choices = Field(
        default_factory=list, description="Of machines that a provider started: only theirs."
    )
    regions: _Choices = Field(default_factory=list, description="Only in these regions.")
    strategy: Literal["spread", "first_fit", "most_free_memory"] = Field(
        "spread",
        description="spread: least loaded first; first_fit: lowest id (packs); most_free_memory.",
    )
    on_unschedulable: Literal["queue", "fail"] = Field(
        "queue", description="Whether a job that no registered worker could ever run waits."
    )
    max_hourly_cost: Annotated[float, Field(gt=0, le=limits.HOURLY_COST)] | None = Field(
        None, description="Highest price per hour; offers without a price are then rejected."
    )
    currency: Annotated[str, AfterValidator(_check_currency)] = Field(
        "USD", description="Of max_hourly_cost."
    )
    provisioning: ProvisioningPolicy | None = Field(
        None, description="What may be started for the job."
    )
