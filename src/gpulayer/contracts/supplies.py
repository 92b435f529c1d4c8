"""What a job is given before it starts: secrets, staged inputs, an environment."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gpulayer.contracts import limits
from gpulayer.contracts.base import Contract, fault, fill, refusal, refuse_all
from gpulayer.contracts.environ_names import name_fault
from gpulayer.contracts.texts import Artifact, Module, Requirement, SafePath


def _check_variable(value: str) -> str:
    wrong = name_fault(value)
    if wrong is not None:
        raise refusal(*wrong)
    return value


class SecretRef(Contract):
    """A secret by name. Its value is looked up by the worker and never travels with the spec."""

    name: Annotated[str, AfterValidator(_check_variable)] = Field(
        max_length=limits.CHOICE_CHARACTERS, description="Variable that the job sees."
    )
    source: Literal["env", "file", "command"] = Field(
        "env", description="Where the worker looks: its environment, a file, a command's output."
    )
    key: str = Field(
        "",
        max_length=limits.SECRET_KEY_CHARACTERS,
        description="The variable, file or command there. Default for env: the same name.",
    )

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        if self.source == "env":
            if not self.key:
                fill(self, key=self.name)
            wrong = name_fault(self.key)
            if wrong is not None:
                refuse_all([fault(("key",), None, *wrong)])
        elif not self.key or not self.key.isprintable():
            refuse_all([
                fault(("key",), None, f"must name the {self.source} that holds the value",
                      f'add "key": the {self.source}')
            ])  # fmt: skip
        return self


class InputRef(Contract):
    """An artifact that is staged before the job starts."""

    artifact: Artifact = Field(description="What is staged, by digest.")
    path: SafePath = Field(description="Where: $GPULAYER_INPUT_DIR/path.")
    unpack: bool = Field(False, description="It is a bundle, and path the folder of its files.")


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
        description="Modules that a warm worker process has imported already.",
    )
    timeout_seconds: Annotated[float, Field(gt=0, le=limits.SECONDS)] | None = Field(
        None, description="How long the preparation may take."
    )
