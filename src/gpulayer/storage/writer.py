"""The one thread that writes. It takes what has piled up and commits it together.

Never a timer: while one batch is being committed the next one gathers by itself, so a quiet store
answers at once and a busy one shares its commits.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue

from gpulayer.storage.commits import Command, Commits

BATCH = 512
"""About the most commands of one transaction: the first of a flood need not wait for the last."""


class Writer:
    """`put` may be called by any thread; answers are set, and their callbacks run, in ours."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self._queue: SimpleQueue[Sequence[Command] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="gpulayer-store", daemon=True)
        self._thread.start()

    def put(self, commands: Sequence[Command]) -> None:
        """They share a transaction."""
        self._queue.put(commands)

    def close(self) -> None:
        """Commit and answer everything that was put, then end. Blocks. Twice-safe."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        while going:
            batch, going = self._gather()
            self._commits.run(batch)

    def _gather(self) -> tuple[list[Command], bool]:
        batch: list[Command] = []
        commands = self._queue.get()
        while commands is not None:
            batch += commands
            if len(batch) >= BATCH:
                return batch, True
            try:
                commands = self._queue.get_nowait()
            except Empty:
                return batch, True
        return batch, False
