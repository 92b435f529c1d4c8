"""Options of the whole suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite",
    deadline=None,  # a busy machine is no fault
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,  # the same examples each time: what fails, fails again
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="Write the golden texts again; read the difference."
    )
