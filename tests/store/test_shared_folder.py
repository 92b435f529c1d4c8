"""Two planes on one database keep their files in one folder, or the second does not begin."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpulayer.errors import StorageError
from gpulayer.sdk.shared_folder import shared_logs
from gpulayer.storage import Store
from tests.support.postgres import PostgresServer


def test_the_folder_of_the_first_is_the_folder_of_all(postgres: PostgresServer, tmp_path: Path):
    address = postgres.shared()
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
    one, other = Store(address), Store(address)
    logs = shared_logs(one, str(mine), "here:/mine")
    assert Path(logs).is_dir()
    assert shared_logs(other, str(mine), "there:/mine") == logs
    for _ in range(2):
        with pytest.raises(StorageError) as refused:
            shared_logs(other, str(theirs), "there:/theirs")
        assert refused.value.code == "folder-not-shared"
        assert "here:/mine" in refused.value.why
    assert list(theirs.iterdir()) == []
    one.close()
    other.close()


def test_of_two_that_begin_at_once_one_is_first(postgres: PostgresServer, tmp_path: Path):
    address = postgres.shared()
    folders = [tmp_path / name for name in "ab"]
    refused: list[str] = []

    def begin(folder: Path) -> None:
        folder.mkdir()
        store = Store(address)
        try:
            shared_logs(store, str(folder), str(folder))
        except StorageError as error:
            refused.append(error.code)
        store.close()

    threads = [threading.Thread(target=begin, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert refused == ["folder-not-shared"]
