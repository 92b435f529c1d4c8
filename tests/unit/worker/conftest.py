"""What tests of a worker share."""

from __future__ import annotations

import pytest

from tests.unit.worker.agent_desk import Desk


@pytest.fixture
def desk() -> Desk:
    """Registered, with an acquire parked."""
    desk = Desk()
    desk.register()
    return desk
