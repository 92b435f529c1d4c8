"""How a function's arguments are written on a line, and what is said of those that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.cli.flags import function_workload
from gpulayer.errors import UsageError


@pytest.mark.parametrize("text", ["", "{}", "[NaN]", "[1", "[" * 100_000])
def test_what_is_no_list_of_json_is_refused_as_what_it_is(text: str) -> None:
    with pytest.raises(UsageError, match="--args is not ") as refused:
        function_workload("m:f", text, None)
    assert refused.value.help == ("--args '[]'",)


def test_a_file_in_the_place_of_its_module_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert function_workload("m.py:f", None, None)["entrypoint"] == "m.py:f"  # a package's part
    (tmp_path / "m.py").touch()
    with pytest.raises(UsageError, match="names a file") as refused:
        function_workload("m.py:f", None, None)
    assert refused.value.help == ("gpulayer submit m:f",)
