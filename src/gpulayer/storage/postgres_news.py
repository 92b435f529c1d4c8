"""News between planes over LISTEN and NOTIFY: which topics have something to look at.

A NOTIFY takes a lock of the whole server when it commits, so topics are gathered: whatever was told
while the last one was on its way goes in one. It is sent after the commit that it tells of, on a
connection of its own. What a broken connection has lost is made good by `hear(None)`: look at
everything.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from collections.abc import Callable, Collection
from queue import SimpleQueue
from threading import Event, Thread

import psycopg

from gpulayer.storage import postgres
from gpulayer.storage.engine import Hear

LOG = logging.getLogger("gpulayer.store")
CHANNEL = "gpulayer"
EVERYTHING = "*"
BYTES = 7900
"""Of one payload; the server takes 8000. More topics than fit are told as everything."""
AGAIN = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Seconds between tries to connect; the last one for ever."""


class PostgresNews:
    """Two daemon threads with a connection each: one listens, one tells."""

    def __init__(self, address: str, hear: Hear) -> None:
        """Listens when it returns. Raises psycopg's errors."""
        self._address = address
        self._hear = hear
        self._queue: SimpleQueue[Collection[str] | None] = SimpleQueue()
        self._closing = Event()
        self._listening = self._listen()
        self._telling = postgres.connect(address)
        self._threads = [
            Thread(target=self._work, args=(work,), name=name, daemon=True)
            for work, name in ((self._hear_all, "gpulayer-hear"), (self._tell_all, "gpulayer-tell"))
        ]
        for thread in self._threads:
            thread.start()

    def tell(self, topics: Collection[str]) -> None:
        if topics:
            self._queue.put(topics)

    def close(self) -> None:
        """What was told before is sent. Twice-safe."""
        self._queue.put(None)
        self._threads[1].join(5)
        self._closing.set()
        _break(self._listening)
        _break(self._telling)
        self._threads[0].join(5)
        for connection in (self._listening, self._telling):
            connection.close()

    def _work(self, work: Callable[[], None]) -> None:
        tries = 0
        while not self._closing.is_set():
            try:
                work()
                return
            except psycopg.Error as error:
                if self._closing.wait(AGAIN[min(tries, len(AGAIN) - 1)]):
                    return
                tries += 1
                if tries == len(AGAIN):
                    LOG.warning("news between planes: %s", error)

    def _hear_all(self) -> None:
        if self._listening.closed:
            self._listening = self._listen()
            self._pass_on(EVERYTHING)
        own = self._listening.info.backend_pid
        for told in self._listening.notifies():
            if told.pid != self._telling.info.backend_pid and told.pid != own:
                self._pass_on(told.payload)

    def _pass_on(self, payload: str) -> None:
        try:
            self._hear(None if payload == EVERYTHING else json.loads(payload))
        except Exception as error:  # of whoever hears it, who may be going: the line stays
            if not self._closing.is_set():
                LOG.warning("news from another plane: %s", error)

    def _tell_all(self) -> None:
        if self._telling.closed:
            self._telling = postgres.connect(self._address)
            self._send(EVERYTHING)  # what was being told when it broke
        while (topics := self._queue.get()) is not None:
            gathered, ends = set(topics), False
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    ends = True
                    break
                gathered |= set(more)
            payload = json.dumps(sorted(gathered), separators=(",", ":"))
            self._send(payload if len(payload) <= BYTES else EVERYTHING)
            if ends:
                return

    def _send(self, payload: str) -> None:
        self._telling.execute("SELECT pg_notify($1, $2)", (CHANNEL, payload))

    def _listen(self) -> postgres.Connection:
        connection = postgres.connect(self._address)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection


def _break(connection: postgres.Connection) -> None:
    """Whoever waits on it is told that it is over."""
    with contextlib.suppress(psycopg.Error, OSError):
        copy = socket.socket(fileno=os.dup(connection.fileno()))
        with copy:
            copy.shutdown(socket.SHUT_RDWR)
