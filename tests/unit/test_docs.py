"""The reference is made from the code, and the repository holds what the code says now."""

from __future__ import annotations

import pytest

from docs.generate import PAGES_MADE, REFERENCE


@pytest.mark.parametrize("name", PAGES_MADE)
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    written = (REFERENCE / name).read_text()
    assert written == PAGES_MADE[name](), "run: python docs/generate.py"
