"""PostgreSQL as an engine: its connections, its schema, and what its errors mean.

psycopg 3 is loaded only where a `postgresql://` address is opened (the extra `postgres`). Several
planes may write one database: each transaction takes its turn (`postgres_turn`), so that what the
store promises about its one writer holds for all of them together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpulayer.errors import GPULayerError, StorageError, UsageError
from gpulayer.storage import dialect
from gpulayer.storage.migrations import foreign, newer, schema_files, split
from gpulayer.storage.queries import Rows

try:
    import psycopg
    from psycopg import RawCursor, errors
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.types.numeric import Int8Dumper
except ImportError as error:
    raise StorageError(
        "database-unreachable",
        "PostgreSQL needs psycopg, which is not installed.",
        why=str(error),
        hint="pip install 'gpulayer[postgres]'",
    ) from error

Connection = psycopg.Connection[Any]
SCHEMA = "gpulayer"
"""The schema inside the database that holds everything of ours."""
OLDEST = 14
"""Of the servers that are tried."""
IDLE_SECONDS = 5
"""How long a transaction may do nothing: a plane that was stopped in one must not stop others."""
_LOCK = 0x47504C59  # "GPLY": of whoever looks after the schema
_DEFAULTS: dict[str, str | int] = {
    "application_name": "gpulayer",
    "connect_timeout": 5,
    # A network that was cut is noticed within 10 s.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}


def connect(address: str) -> Connection:
    """A connection in our schema."""
    wanted: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(address)}
    connection: Connection = psycopg.connect(
        make_conninfo(**wanted), autocommit=True, cursor_factory=RawCursor
    )
    # One type for whole numbers of any size: else each size prepares a statement of its own.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.prepare_threshold = 2
    connection.prepared_max = 400
    connection.execute(
        f"SET search_path = {SCHEMA}; SET lock_timeout = '20s';"
        f" SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"
    )
    return connection


def named(address: str) -> str:
    """The address as it may be told: without user and password."""
    try:
        given = conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        why = str(error).strip()
        raise UsageError("usage", "the address of the database cannot be read", why=why) from None
    host, port = given.get("host") or "", given.get("port")
    return f"postgresql://{host}{f':{port}' if port else ''}/{given.get('dbname') or ''}"


def migrate(connection: Connection, where: str, scripts: Sequence[str] | None = None) -> None:
    """Bring our schema up to the newest, all of what is missing in one transaction. Twice-safe,
    and safe beside another plane that does the same.

    Raises StorageError `newer-database` or `corrupt`, and then has written nothing.
    """
    scripts = schema_files() if scripts is None else scripts
    with connection.transaction():
        execute = connection.execute
        execute("SELECT pg_advisory_xact_lock($1)", (_LOCK,))
        version = _version(connection, where)
        if version > len(scripts):
            raise newer(where, version, len(scripts))
        for script in scripts[version:]:
            for statement in split(script):
                execute(dialect.schema(statement))
        execute("UPDATE schema_version SET version = $1", (len(scripts),))


def _version(connection: Connection, where: str) -> int:
    server, encoding = connection.info.server_version // 10_000, connection.info.encoding
    if server < OLDEST or encoding != "utf-8":
        raise foreign(where, f"PostgreSQL {OLDEST} or later with UTF8 is needed, not {server}")
    (tables,) = connection.execute(
        "SELECT count(*) FROM pg_tables WHERE schemaname = $1", (SCHEMA,)
    ).fetchone() or (0,)
    if not tables:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (0)")
        return 0
    try:
        rows = connection.execute("SELECT version FROM schema_version").fetchall()
    except errors.UndefinedTable:
        rows = []
    if len(rows) != 1:
        raise foreign(where, f"its schema {SCHEMA!r} holds tables without GPUlayer's mark")
    return int(rows[0][0])


class LawBroken(Exception):
    """The schema refuses a row. Its words are SQLite's: the server's own show the whole row."""


def broken_law(error: psycopg.IntegrityError) -> LawBroken:
    kind = _LAWS.get(error.sqlstate or "")
    return LawBroken(
        _words(error) if kind is None else f"{kind} constraint failed: {error.diag.constraint_name}"
    )


class PostgresReading:
    """One connection; a read is one snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()

    def execute(self, sql: str, parameters: Sequence[object], /) -> Rows:
        return self._cursor.execute(dialect.statement(sql), parameters)

    def begin(self) -> None:
        self._cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def end(self) -> None:
        try:
            self._cursor.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def is_usable(self) -> bool:
        return not self._connection.closed


def as_ours(error: BaseException, where: str) -> BaseException:
    """Our error for one of psycopg's; any other is given back as it is."""
    if isinstance(error, UnicodeEncodeError | OverflowError | psycopg.DataError):
        return UsageError("usage", f"a value that no store can hold: {_words(error)}")
    if isinstance(error, LawBroken):
        return GPULayerError("internal", f"The store refused a row: {error}.", where=where)
    if not isinstance(error, psycopg.Error):
        return error
    slug = _slug(error)
    if slug == "internal":
        return GPULayerError(slug, f"The store refused a statement: {_words(error)}.", where=where)
    hint = "" if slug == "disk-full" else "gpulayer doctor"
    return StorageError(slug, _SENTENCES[slug], where=where, why=_words(error), hint=hint)


def is_lost(error: BaseException, connection: Connection) -> bool:
    """Whether the connection is gone with it."""
    return isinstance(error, psycopg.Error) and connection.closed


def is_passing(error: BaseException) -> bool:
    """Whether it lies in the moment: the connection broke, the server restarts, somebody waits
    for somebody else."""
    if isinstance(error, psycopg.InterfaceError):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return isinstance(
            error, errors.ReadOnlySqlTransaction | errors.IdleInTransactionSessionTimeout
        )
    return error.sqlstate is None or error.sqlstate.startswith(("08", "40", "55P03", "57P"))


def _slug(error: psycopg.Error) -> str:
    state = error.sqlstate
    if state is None:
        return "database-unreachable" if isinstance(error, _OF_CONNECTION) else "internal"
    return next((slug for begin, slug in _SLUGS if state.startswith(begin)), "internal")


def _words(error: BaseException) -> str:
    """The server's own, on one line."""
    text = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return re.sub(r"\s+", " ", text or str(error)).strip().rstrip(".")


_LAWS = {"23505": "UNIQUE", "23514": "CHECK", "23503": "FOREIGN KEY", "23502": "NOT NULL"}
_OF_CONNECTION = (psycopg.OperationalError, psycopg.InterfaceError)
_SLUGS = (
    ("53100", "disk-full"),
    ("25006", "read-only"),
    ("58", "disk-error"),
    ("XX001", "corrupt"),
    ("XX002", "corrupt"),
    *((begin, "database-unreachable") for begin in ("08", "25P03", "28", "3D", "40", "42501")),
    *((begin, "database-unreachable") for begin in ("53", "55", "57")),
)
_SENTENCES = {
    "disk-full": "The database's disk is full, so nothing was accepted.",
    "read-only": "The database cannot be written.",
    "disk-error": "The database's disk refused to read or write, so nothing was accepted.",
    "corrupt": "The database is damaged; nothing of it was used.",
    "database-unreachable": "The database does not answer, so nothing was accepted.",
}
