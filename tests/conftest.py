"""Options of the whole suite."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.object_stores import Moto, ObjectStore, Rclone
from tests.support.postgres import PostgresServer

settings.register_profile(
    "suite",
    deadline=None,  # a busy machine is no fault
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,  # the same examples each time: what fails, fails again
)
settings.load_profile("suite")

BEGAN_IN = os.getcwd()


def pytest_configure() -> None:
    """What the tests start is interrupted and hung up by them, though whoever started the tests
    (nohup, a shell's `&`) ignores that."""
    for signum, action in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGQUIT, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(signum) == signal.SIG_IGN:
            signal.signal(signum, action)


def pytest_runtest_teardown() -> None:
    """Parts of a supervisor that a test runs in this process go to `/`; the next test does not."""
    os.chdir(BEGAN_IN)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="Write the golden texts again; read the difference."
    )


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process; see `tests.support.postgres`."""
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def moto() -> Iterator[ObjectStore]:
    """An object store for all tests of this process; see `tests.support.object_stores`."""
    yield from _running(Moto)


@pytest.fixture(scope="session")
def rclone() -> Iterator[ObjectStore]:
    """Another one, of other makers."""
    yield from _running(Rclone)


def _running(kind: type[ObjectStore]) -> Iterator[ObjectStore]:
    server = kind()
    try:
        yield server
    finally:
        server.close()
