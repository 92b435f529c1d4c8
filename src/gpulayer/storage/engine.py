"""What the store needs of a database: one connection that writes, some that read, and its errors.

`sqlite` and `postgres` are the two. All SQL above them is one text, in the words that both know;
`dialect` turns the few that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from gpulayer.contracts.records import Event
from gpulayer.errors import GPULayerError
from gpulayer.storage.queries import Rows


class Turn(NamedTuple):
    """What a transaction is told at its beginning."""

    others_wrote: bool = False
    """Another plane has committed since the last commit here: what was remembered may be old."""
    epoch: int = 0
    """Of the plane that schedules, as it is until this transaction ends. 0: there is only one."""


class Again(Exception):
    """The transaction is gone and nothing of it is kept, through no fault of its own: run it
    again. Its cause says why."""


class UnknownOutcome(Exception):
    """Whether the transaction is kept could not be found out. Its cause says why."""


class RowRefused(GPULayerError):
    """A change that the schema forbids. `job_id` is the job whose story says how it came to it."""

    def tell(self, story: Iterable[Event]) -> None:
        told = ", ".join(f"{event.seq} {event.kind} ({event.state})" for event in story)
        if told and not self.why:
            self.why = f"its last events: {told}"
            self.add_note(f"why: {self.why}")


class Writing(Protocol):
    """The one connection that writes, for one thread at a time."""

    def execute(self, sql: str, parameters: Sequence[object], /) -> Rows: ...

    def begin(self, *, synced: bool) -> Turn:
        """A transaction that nobody else writes beside. `synced`: its commit waits for the disk."""

    def commit(self) -> None:
        """Raises `Again` or `UnknownOutcome` when the connection was lost meanwhile."""

    def roll_back(self) -> None:
        """Safe in any condition."""

    def changes(self) -> int:
        """Grows with every row written."""

    def can_go_on(self) -> bool:
        """Whether the transaction may still be committed."""

    def recover(self, attempt: int) -> bool:
        """After `Again`: ready for another try, the `attempt`th. May wait; False: it is in vain."""

    def faults(self) -> tuple[str, ...]:
        """What a check of everything finds; nothing when it is sound. Costs by its size."""

    def close(self) -> None: ...


class Reading(Protocol):
    """A connection that only reads, for one thread at a time."""

    def execute(self, sql: str, parameters: Sequence[object], /) -> Rows: ...

    def begin(self) -> None:
        """From here on one instant."""

    def end(self) -> None:
        """Ready for the next `begin`. Raises nothing."""

    def close(self) -> None: ...

    @property
    def is_usable(self) -> bool: ...


Hear = Callable[[Collection[str] | None], None]
"""Is called with topics that another plane told; None: some may have been missed."""


class News(Protocol):
    """A line between planes. Hints only: what is told may be lost with a connection."""

    def tell(self, topics: Collection[str]) -> None:
        """To all others, soon; what is told meanwhile goes with it. Never waits."""

    def close(self) -> None: ...


class Engine(Protocol):
    """One database."""

    where: str
    """Names it in errors; holds no password."""
    shares_connection: bool
    """There is one connection for everything, so that a reader waits for the writer."""
    plane: str
    """Names this opening of it among the planes that may share it; empty: none can."""

    @property
    def law(self) -> type[Exception]:
        """What a statement raises whose row the schema refuses."""

    def open_writer(self) -> Writing:
        """Open or create it, at the newest schema. Raises StorageError; then nothing changed."""

    def open_reader(self) -> Reading: ...

    def open_news(self, hear: Hear) -> News | None:
        """A line to the other planes. None: there can be no other."""

    def as_ours(self, error: BaseException) -> BaseException:
        """Our error for one of its own; any other is given back as it is."""

    def is_passing(self, error: BaseException) -> bool:
        """Whether the same transaction may well succeed when it is run again."""

    def lost_sync(self, error: BaseException) -> bool:
        """Whether what the disk holds is unknown until a reopen."""
