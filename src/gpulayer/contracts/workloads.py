"""The three kinds of work. Which one it is decides whether a job is independent or distributed;
where it runs is `placement`'s affair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import InitErrorDetails

from gpulayer.contracts import limits
from gpulayer.contracts.base import Contract, fault, refuse_all
from gpulayer.contracts.plain_json import PlainList, PlainObject
from gpulayer.contracts.texts import Artifact, Entrypoint, SafePath, Word

_Seconds = Annotated[float, Field(gt=0, le=limits.SECONDS)]
_Words = Annotated[list[Word], Field(max_length=limits.ARGV_ITEMS)]


class CommandJob(Contract):
    """One command line, run as it is: no shell, and nothing in it is expanded."""

    kind: Literal["command"] = "command"
    command: _Words = Field(
        min_length=1,
        description="The words of the command (argv). A leading python means the job's own.",
    )
    source: Artifact | None = Field(
        None, description="Source bundle to run it in; none: the folder where it runs anyway."
    )

    @model_validator(mode="after")
    def _begins(self) -> Self:
        if not self.command[0]:
            refuse_all([fault(("command", 0), "", "is empty", "name the program to run")])
        return self


class FunctionJob(Contract):
    """One call of an importable function. Arguments and result are JSON, or values written so."""

    kind: Literal["function"] = "function"
    entrypoint: Entrypoint = Field(description="The function, as module:function.")
    args: PlainList = Field(default_factory=list, description="Arguments by place.")
    kwargs: PlainObject = Field(default_factory=dict, description="Arguments by name.")
    source: Artifact | None = Field(None, description="Source bundle that holds the module.")


class Rendezvous(Contract):
    """How the nodes of a distributed job find each other."""

    port: int | None = Field(
        None, ge=1024, le=65_535, description="TCP port of the first node. Default: a free one."
    )
    join_timeout_seconds: _Seconds = Field(
        300, description="How long the first node waits for the others."
    )


class DistributedJob(Contract):
    """One coordinated job of several processes on one or more nodes."""

    kind: Literal["distributed"] = "distributed"
    entrypoint: SafePath | None = Field(None, description="Path of the script in the bundle.")
    args: _Words = Field(default_factory=list, description="The script's arguments.")
    function: Entrypoint | None = Field(
        None, description="A function to run on each rank instead, as module:function."
    )
    function_args: PlainList = Field(default_factory=list, description="Its arguments by place.")
    function_kwargs: PlainObject = Field(default_factory=dict, description="Those by name.")
    source: Artifact | None = Field(None, description="Source bundle that holds the code.")
    num_workers: int = Field(1, ge=1, le=limits.NODES, description="Nodes.")
    procs_per_worker: int = Field(
        1, ge=1, le=limits.PROCESSES_PER_NODE, description="Processes on each node."
    )
    comm_backend: Literal["gloo", "nccl"] | None = Field(
        None, description="Default: nccl exactly when the accelerator is cuda, else gloo."
    )
    rendezvous: Rendezvous = Field(
        default_factory=Rendezvous, description="How the nodes find each other."
    )
    launcher: Literal["torchrun", "direct"] = Field(
        "torchrun", description="torchrun starts the ranks, or GPUlayer itself (direct)."
    )

    @model_validator(mode="after")
    def _one_program(self) -> Self:
        refuse_all(_program_faults(self))
        return self


def _program_faults(job: DistributedJob) -> Iterator[InitErrorDetails]:
    mend = 'give "entrypoint": "train.py" or "function": "module:function"'
    if job.entrypoint is None and job.function is None:
        yield fault((), None, "needs an entrypoint or a function to run", mend)
    elif job.entrypoint is not None and job.function is not None:
        yield fault(("function",), None, "and entrypoint are both set: one of them runs", mend)
    elif job.function is None:
        for name in ("function_args", "function_kwargs"):
            if getattr(job, name):
                yield fault((name,), None, "are for a function, but a script is to run", "use args")
    elif job.args:
        yield fault(("args",), None, "are for a script, but a function is to run",
                    "use function_args")  # fmt: skip


Workload = Annotated[
    CommandJob | FunctionJob | DistributedJob,
    Field(discriminator="kind", description="What is run: command, function or distributed."),
]


def default_backend(accelerator: Any) -> Literal["gloo", "nccl"]:
    return "nccl" if accelerator == "cuda" else "gloo"
