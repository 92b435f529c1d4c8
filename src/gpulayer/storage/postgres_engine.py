"""PostgreSQL as an engine: opens what `postgres` and `postgres_turn` describe."""

from __future__ import annotations

import secrets

import psycopg

from gpulayer.storage import postgres
from gpulayer.storage.engine import Hear
from gpulayer.storage.postgres_news import PostgresNews
from gpulayer.storage.postgres_turn import PostgresWriting


class PostgresDatabase:
    """The engine over one database of a server. `home` names the place of this plane: the next
    plane there follows this one."""

    law = postgres.LawBroken
    shares_connection = False

    def __init__(self, address: str, home: str = "") -> None:
        self.where = postgres.named(address)
        self._address = address
        self._home = home
        self.plane = secrets.token_hex(8)

    def open_writer(self) -> PostgresWriting:
        try:
            writing = PostgresWriting(self._address, self.where, self.plane, self._home)
            try:
                postgres.migrate(writing.connection, self.where)
            except BaseException:
                writing.connection.close()
                raise
        except psycopg.Error as error:
            raise postgres.as_ours(error, self.where) from error
        return writing

    def open_reader(self) -> postgres.PostgresReading:
        return postgres.PostgresReading(postgres.connect(self._address))

    def open_news(self, hear: Hear) -> PostgresNews:
        return PostgresNews(self._address, hear)

    def as_ours(self, error: BaseException) -> BaseException:
        return postgres.as_ours(error, self.where)

    def is_passing(self, error: BaseException) -> bool:
        return postgres.is_passing(error)

    def lost_sync(self, error: BaseException) -> bool:
        return False  # the server itself stops at one, and begins anew from its log
