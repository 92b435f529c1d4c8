"""Small pictures of series."""

from __future__ import annotations

import pytest

from gpulayer.cli.metrics import drawn


@pytest.mark.parametrize(
    ("values", "width", "picture"),
    [
        ([], 8, ""),
        ([None, None], 8, ""),
        ([3.0], 8, "▁"),
        ([2.0, 2.0, 2.0], 8, "▁▁▁"),
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█"),
        ([7, None, 0], 8, "█ ▁"),
        ([0, 0, 7, 7], 2, "▁█"),
        ([0.0, 1e300, -1e300], 8, "▅█▁"),
        (list(range(1000)), 8, "▁▂▃▄▅▆▇█"),
    ],
)
def test_a_series_is_bars_as_wide_as_there_is_room(
    values: list[float | None], width: int, picture: str
) -> None:
    assert drawn(values, width) == picture


def test_what_is_too_large_to_be_added_is_drawn_all_the_same() -> None:
    assert drawn([1.7e308, -1.7e308, 1.7e308, 1.7e308], 2)
