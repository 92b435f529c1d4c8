"""What a job is given before it starts: secrets, staged inputs, an environment."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gpulayer.contracts import limits
from gpulayer.contracts.base import Contract, fault, fill, refusal, refuse_all
from gpulayer.contracts.environ_names import name_fault
from gpulayer.contracts.texts import Artifact, FetchUrl, Module, Requirement, SafePath


def _check_variable(value: str) -> str:
    wrong = name_fault(value)
    if wrong is not None:
        raise refusal(*wrong)
    return value


def _named(source: str, wrong: tuple[str, str]) -> tuple[str, str]:
    if source == "env":
        return wrong
    mend = "write a name that the worker has: gpulayer join --secret NAME=command:LINE"
    return "is not a name in the worker's list: a command stands there, never in a job", mend


class SecretRef(Contract):
    """A secret by name. Its value is looked up by the worker and never travels with the spec.

    A job on this machine has a variable of its terminal or a file of its user. Any other job, and
    `command`, names an entry of the worker's own list, where its owner says what it comes from.
    """

    name: Annotated[str, AfterValidator(_check_variable)] = Field(
        max_length=limits.CHOICE_CHARACTERS, description="Variable that the job sees."
    )
    source: Literal["env", "file", "command"] = Field(
        "env",
        description="env: a variable of the terminal; file: a file of the user; command: "
        "what the worker's owner has it run. Elsewhere the owner's list decides.",
    )
    key: str = Field(
        "",
        max_length=limits.SECRET_KEY_CHARACTERS,
        description="The variable, the file, or the name in the worker's list. Default: the same "
        "name; not for file.",
    )

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        if self.source != "file":
            if not self.key:
                fill(self, key=self.name)
            wrong = name_fault(self.key)
            if wrong is not None:
                refuse_all([fault(("key",), None, *_named(self.source, wrong))])
        elif not self.key or not self.key.isprintable():
            refuse_all([
                fault(("key",), None, "must name the file that holds the value",
                      'add "key": the file')
            ])  # fmt: skip
        return self


class InputRef(Contract):
    """An artifact that is staged before the job starts."""

    artifact: Artifact = Field(description="What is staged, by digest.")
    path: SafePath = Field(description="Where: $GPULAYER_INPUT_DIR/path.")
    unpack: bool = Field(False, description="It is a bundle, and path the folder of its files.")
    url: FetchUrl | None = Field(
        None, description="Web or bucket address that the worker fetches; unset: the plane has it."
    )


class Environment(Contract):
    """Packages that the worker prepares once for all jobs that ask for the same."""

    requirements: list[Requirement] = Field(
        default_factory=list,
        max_length=limits.REQUIREMENTS,
        description='Packages, such as "einops>=0.8".',
    )
    file: SafePath | None = Field(
        None, description="A requirements file, project file or lock file in the source bundle."
    )
    preload: list[Module] = Field(
        default_factory=list,
        max_length=limits.REQUIREMENTS,
        description="Modules that a warm worker process has imported already. Of a script: those "
        "it names, unless this says otherwise; [] starts it cold.",
    )
    timeout_seconds: Annotated[float, Field(gt=0, le=limits.SECONDS)] | None = Field(
        None, description="How long the preparation may take."
    )
