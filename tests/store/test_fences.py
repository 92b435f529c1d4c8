"""A fence is never given twice: not after a rollback, a kill, a power cut or a restore."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpulayer.contracts.ids import Fence
from gpulayer.storage import Store, Tx
from gpulayer.storage.fences import BLOCK


def take(store: Store, count: int) -> list[Fence]:
    return store.write(lambda tx: tx.next_fences(count)).result(timeout=30)


def test_fences_ascend_and_differ(store: Store):
    taken = [*take(store, 3), *take(store, 1), store.write(lambda tx: tx.next_fence()).result()]
    assert taken == sorted(set(taken))
    assert taken[0] > 0


def test_a_transaction_may_need_more_than_a_block(store: Store):
    before = take(store, 5)
    many = take(store, 2 * BLOCK + 1)
    one_by_one = store.write(lambda tx: [tx.next_fence() for _ in range(2 * BLOCK)]).result()
    taken = [*before, *many, *one_by_one, *take(store, 5)]
    assert len(set(taken)) == len(taken)


def test_a_rolled_back_transaction_took_nothing(store: Store):
    first = take(store, 1)[0]

    def fails(tx: Tx) -> None:
        tx.next_fences(100)
        tx.set_meta("a", "b")
        raise KeyError

    with pytest.raises(KeyError):
        store.write(fails).result()
    assert take(store, 1) == [first + 1]


def test_a_fence_seen_elsewhere_is_passed_over(store: Store):
    first = take(store, 1)[0]
    store.write(lambda tx: tx.skip_fences(Fence(first + 10))).result()
    assert take(store, 1) == [first + 11]
    store.write(lambda tx: tx.skip_fences(Fence(first))).result()
    assert take(store, 1) == [first + 12]
    store.write(lambda tx: tx.skip_fences(Fence(123_456))).result()
    assert take(store, 2) == [123_457, 123_458]


def test_the_next_plane_begins_behind_the_block(path: str):
    given = []
    for _ in range(3):
        store = Store(path)
        given += take(store, 3)
        store.close()
    assert given == sorted(set(given))
    assert given[3] - given[0] == BLOCK


def test_the_end_of_a_block_is_synced_before_any_of_it_is_used(path: str):
    levels: list[tuple[int, str | None]] = []

    def look(point: str) -> None:
        if point == "commit":
            (level,) = store._writing.execute("PRAGMA synchronous").fetchone()
            levels.append((level, store._commits._tx.meta("next_fence")))

    store = Store(path, inline=True, fault=look)
    take(store, 1)
    take(store, 1)
    store.close()
    end = str(BLOCK + 1)
    assert levels == [(2, end), (1, end), (1, end)]


def test_a_power_cut_loses_answers_but_gives_no_fence_twice(path: str, tmp_path: Path):
    store = Store(path)
    seen = take(store, 1)
    on_the_disk = tmp_path / "after"
    on_the_disk.mkdir()
    for file in tmp_path.glob("db.sqlite*"):
        shutil.copy(file, on_the_disk)
    seen += take(store, BLOCK // 2)
    store.close()
    revived = Store(on_the_disk / "db.sqlite")
    assert min(take(revived, 10)) > max(seen)
    revived.close()


def test_a_restored_store_passes_over_what_its_workers_hold(path: str, tmp_path: Path):
    store = Store(path)
    take(store, 1)
    store.close()
    shutil.copy(path, tmp_path / "backup.sqlite")
    store = Store(path)
    held = take(store, 3 * BLOCK)[-1]
    store.close()
    restored = Store(tmp_path / "backup.sqlite")
    restored.write(lambda tx: tx.skip_fences(held)).result()
    assert take(restored, 1)[0] > held
    restored.close()
    again = Store(tmp_path / "backup.sqlite")
    assert take(again, 1)[0] > held
    again.close()
