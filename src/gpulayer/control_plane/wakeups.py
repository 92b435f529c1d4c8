"""Who waits for what. Hints only: a woken waiter reads the truth again.

The pattern that loses nothing is: subscribe, read, and wait only if the answer is not there yet.
A ticket is good for one wake-up. Threads wait on the ticket; asyncio waits on its `future`
(`asyncio.wrap_future`). Nothing here polls.

    job:<id>      the job's row, story or log has changed
    jobs          some job has ended
    worker:<id>   there may be work or an order for the worker
    right:<id>    a credential was revoked
    queue         another plane has brought work or made room: for the one that schedules

Where several planes share a store, each tells the others what it publishes (`relay`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Future, InvalidStateError
from threading import Lock
from types import TracebackType

ANY_JOB = "jobs"
QUEUE = "queue"


def job_topic(job_id: str) -> str:
    return f"job:{job_id}"


def worker_topic(worker_id: str) -> str:
    return f"worker:{worker_id}"


def right_topic(credential_id: str) -> str:
    return f"right:{credential_id}"


class Ticket:
    """One wait, for the first word on any of its topics. Closing it twice is fine."""

    __slots__ = ("_topics", "_wakeups", "future")

    def __init__(self, wakeups: Wakeups, topics: tuple[str, ...]) -> None:
        self._wakeups = wakeups
        self._topics = topics
        self.future: Future[None] = Future()

    def wait(self, timeout: float | None) -> bool:
        """Whether there was a word within `timeout` seconds."""
        try:
            self.future.result(timeout)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self._wakeups._remove(self, self._topics)

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Wakeups:
    """All waiters of one plane. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[str, set[Ticket]] = {}
        self._is_open = True
        self.relay: Callable[[Collection[str]], None] | None = None
        """Tells the other planes. Set once, before the first publish."""

    def subscribe(self, *topics: str) -> Ticket:
        """Close the ticket when done with it, or use it in a `with`."""
        ticket = Ticket(self, topics)
        with self._lock:
            if self._is_open:
                for topic in topics:
                    self._waiting.setdefault(topic, set()).add(ticket)
                return ticket
        _wake(ticket)
        return ticket

    def publish(self, *topics: str) -> None:
        """Wake who waits for any of them now, here and at other planes. Costs nothing where
        nobody does."""
        self.wake(*topics)
        if self.relay is not None:
            self.relay(topics)

    def wake(self, *topics: str) -> None:
        """The same here alone."""
        woken: list[Ticket] = []
        with self._lock:
            for topic in topics:
                woken += self._waiting.pop(topic, ())
        for ticket in woken:
            _wake(ticket)

    def wake_all(self) -> None:
        """Words from other planes may have been missed."""
        with self._lock:
            topics = tuple(self._waiting)
        self.wake(*topics)

    def close(self) -> None:
        """Wake everybody, and whoever subscribes from now on: the plane is going."""
        with self._lock:
            self._is_open = False
            woken = {ticket for tickets in self._waiting.values() for ticket in tickets}
            self._waiting.clear()
        for ticket in woken:
            _wake(ticket)

    def waiting(self) -> int:
        """How many tickets wait."""
        with self._lock:
            return len({ticket for tickets in self._waiting.values() for ticket in tickets})

    @property
    def is_open(self) -> bool:
        return self._is_open

    def _remove(self, ticket: Ticket, topics: tuple[str, ...]) -> None:
        with self._lock:
            for topic in topics:
                tickets = self._waiting.get(topic)
                if tickets is not None:
                    tickets.discard(ticket)
                    if not tickets:
                        del self._waiting[topic]


def _wake(ticket: Ticket) -> None:
    try:
        ticket.future.set_result(None)
    except InvalidStateError:
        pass  # woken by another topic, or its waiter gave up
