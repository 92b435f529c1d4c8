"""Every error that GPUlayer raises. The table of their stable slugs is `slugs`.

    GPULayerError                 code, message, where, why, hint, job_id
    |- UsageError                 what was asked for is malformed: flag, field, file, value
    |  `- SpecError               a job spec is refused; `problems` lists all of it at once
    |- NotFoundError              no such job, artifact, worker, file
    |- RefusedError               understood, and not done: permission, state, version, limits
    |- UnreachableError           no plane answers
    |- StorageError               disk, database, folder
    `- JobError                   a job ended otherwise than well
       |- SchedulingError         no worker can ever run it
       |- PreparationError        it failed before the first instruction of the workload
       |- JobFailedError          it ran and failed; a remote exception is its `__cause__`
       |- JobCancelledError
       |- JobTimedOutError
       `- JobLostError            GPUlayer lost it: worker, supervisor or envelope is gone

Rendering (`error[slug]: what`, `where:`, `why:`, `help:`) is `cli.render`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a spec: where (`resources.gpu_cout`), what, how to mend it, which line."""

    field: str
    message: str
    mend: str = ""
    line: int | None = None
    slug: str = "invalid-field"

    def sentence(self) -> str:
        """`line 7: resources.gpu_cout is not a field of JobSpec (did you mean gpu_count?)`."""
        line = f"line {self.line}: " if self.line else ""
        mend = f" ({self.mend})" if self.mend else ""
        return line + f"{self.field} {self.message}{mend}".lstrip()


class GPULayerError(Exception):
    """Base of all. `str(error)` is the sentence alone; `to_json` is what `--json` prints."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str = "",
        why: str = "",
        hint: str | Sequence[str] = (),
        job_id: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where
        self.why = why
        self.help = (hint,) if isinstance(hint, str) and hint else tuple(hint)
        self.job_id = job_id
        self.details = dict(details or {})
        for label, text in (("where", where), ("why", why), ("help", self.hint)):
            if text:
                self.add_note(f"{label}: {text}")  # a plain traceback shows them too

    @property
    def hint(self) -> str:
        """The commands or steps that mend it, joined for people."""
        return "  |  ".join(self.help)

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        for key, value in (
            ("where", self.where),
            ("why", self.why),
            ("hint", list(self.help)),
            ("job_id", self.job_id),
            ("details", self.details),
        ):
            if value:
                body[key] = value
        return body


class UsageError(GPULayerError):
    """What was asked for is malformed."""


class SpecError(UsageError):
    """A job spec is refused. `problems` holds every fault found, in the order of the file. Of
    several, `message` is a headline and `str(error)` has a line for each."""

    def __init__(self, code: str, message: str, *, problems: Sequence[Problem] = (), **kw: Any):
        super().__init__(code, message, **kw)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        if len(self.problems) < 2:
            return self.message
        return "\n  ".join([self.message, *(problem.sentence() for problem in self.problems)])

    def to_json(self) -> dict[str, Any]:
        body = super().to_json()
        body["problems"] = [
            {k: getattr(p, k) for k in ("field", "message", "mend", "line", "slug")}
            for p in self.problems
        ]
        return body


class NotFoundError(GPULayerError):
    """Nothing by that name."""


class RefusedError(GPULayerError):
    """Understood, and not done."""


class UnreachableError(GPULayerError):
    """No plane answers."""


class StorageError(GPULayerError):
    """Disk, database or folder."""


class JobError(GPULayerError):
    """A job ended otherwise than well."""


class SchedulingError(JobError):
    """No registered worker can ever run the job."""


class PreparationError(JobError):
    """The job failed before the first instruction of its workload."""


class JobFailedError(JobError):
    """The job ran and failed. For a function, `__cause__` is the remote exception."""


class JobCancelledError(JobError):
    """The job was cancelled."""


class JobTimedOutError(JobError):
    """The job reached its time limit."""


class JobLostError(JobError):
    """GPUlayer lost the job; whether the work was done is not known."""
