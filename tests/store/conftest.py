"""The store under test, once per engine. A new engine is one more line and passes every test
here but those of `test_sqlite_*` and `test_postgres_*`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpulayer.storage import Store
from tests.support.postgres import PostgresServer

ENGINES: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: Store(folder / "db.sqlite"),
    "sqlite-power": lambda folder: Store(folder / "db.sqlite", durability="power"),
    "sqlite-inline": lambda folder: Store(folder / "db.sqlite", inline=True),
    "memory": lambda folder: Store(":memory:"),
    "memory-inline": lambda folder: Store(":memory:", inline=True),
}
POSTGRES: dict[str, Callable[[str], Store]] = {
    "postgres": Store,
    "postgres-power": lambda address: Store(address, durability="power"),
    "postgres-inline": lambda address: Store(address, inline=True),
}


@pytest.fixture(params=[*sorted(ENGINES), *sorted(POSTGRES)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param in POSTGRES:
        server: PostgresServer = request.getfixturevalue("postgres")
        opened = POSTGRES[request.param](server.shared())
    else:
        opened = ENGINES[request.param](tmp_path)
    try:
        yield opened
        with opened.read() as reader:
            states = [job.state for job in reader.jobs()]
            assert {s: n for s, n in reader.counts().items() if n} == {
                s: states.count(s) for s in set(states)
            }
        assert opened.check() == ()
    finally:
        opened.close()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "db.sqlite")
