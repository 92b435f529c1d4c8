"""What a list of files of a checkpoint may say."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts import limits
from gpulayer.contracts.checkpoint_files import require_files, size_of, stays_inside
from gpulayer.errors import UsageError


def a_file(path: str = "w", **changes: Any) -> dict[str, Any]:
    base = {"digest": "a" * 64, "size": 3, "executable": False, "mtime_ns": 5}
    return {"path": path, **base, **changes}


def test_files_and_links_that_stay_inside_are_taken() -> None:
    files = [a_file("a/b"), a_file("c"), {"path": "a/newest", "link": "../c"}]
    require_files(files)
    assert size_of(files) == 6


@pytest.mark.parametrize(
    "files",
    [
        [],
        [a_file("../w")],
        [a_file("/w")],
        [a_file("")],
        [a_file("a\\b")],
        [a_file(size=-1)],
        [a_file(size=True)],
        [a_file(digest="A" * 64)],
        [a_file(digest="a" * 63)],
        [a_file(mtime_ns=1 << 70)],
        [{"path": "w"}],
        [a_file("a"), a_file("a")],
        [a_file("a"), a_file("a/b")],
        [a_file("x/a"), a_file("x/a/b/c"), a_file("x/a.b")],
        [{"path": "l", "link": "../w"}],
        [{"path": "a/l", "link": "../../w"}],
        [{"path": "l", "link": "/etc/passwd"}],
        [{"path": "l", "link": ""}],
        [a_file("l/x"), {"path": "l", "link": "."}],
    ],
)
def test_what_could_not_be_put_back_is_refused(files: list[dict[str, Any]]) -> None:
    with pytest.raises(UsageError):
        require_files(files)


def test_so_many_files_and_no_more() -> None:
    most = limits.CHECKPOINT_FILES
    require_files([a_file(f"f{n}") for n in range(most)])
    with pytest.raises(UsageError):
        require_files([a_file(f"f{n}") for n in range(most + 1)])


def test_a_link_is_followed_by_its_words_alone() -> None:
    assert stays_inside("a/l", "b/../../c")
    assert not stays_inside("l", "a/../..")
    assert not stays_inside("l", "a\0b")
