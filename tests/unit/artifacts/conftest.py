"""What tests of archives share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.artifacts.hostile_zips import Ground


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)
